"""The config of a run: what may be set, what it means, and how a file of it is read."""

from tonetune.config.keys import Key, keys_of
from tonetune.config.schema import RunConfig, load_config, starter_yaml, to_yaml

__all__ = ["Key", "RunConfig", "keys_of", "load_config", "starter_yaml", "to_yaml"]
