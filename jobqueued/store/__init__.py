"""Where jobs are kept: verbs in interface.py, SQLite behind them."""
