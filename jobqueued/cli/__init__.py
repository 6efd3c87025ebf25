"""The command line; talks to a daemon through `jobqueued.client`."""
