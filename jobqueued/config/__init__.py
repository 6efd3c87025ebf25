"""Configuration: every setting once; load, check, and where things are by default."""

from jobqueued.config.declare import SETTINGS
from jobqueued.config.examine import Examined, examine_config
from jobqueued.config.listen import TcpAddress, UnixAddress, parse_address
from jobqueued.config.load import load_config, needs_restart
from jobqueued.config.places import default_socket_path, default_store_path, find_config
from jobqueued.config.setting import Setting
from jobqueued.config.settings import (
    Config,
    PoolSettings,
    QueueSettings,
    RetentionSettings,
    ServerSettings,
    ShutdownSettings,
    StoreSettings,
)
from jobqueued.config.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)
from jobqueued.config.warn import warnings

__all__ = [
    "SETTINGS",
    "Config",
    "Examined",
    "PoolSettings",
    "QueueSettings",
    "RetentionSettings",
    "ServerSettings",
    "Setting",
    "ShutdownSettings",
    "StoreSettings",
    "TcpAddress",
    "UnixAddress",
    "default_socket_path",
    "default_store_path",
    "examine_config",
    "find_config",
    "format_duration",
    "format_rate",
    "format_size",
    "load_config",
    "needs_restart",
    "parse_address",
    "parse_duration",
    "parse_rate",
    "parse_size",
    "warnings",
]
