"""What people see of the daemon from outside: its log."""
