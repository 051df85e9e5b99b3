"""Settings of an agent process from agent.toml, validated at start."""

from posse.live.config.agent_settings import AgentSettings as AgentSettings
from posse.live.config.agent_settings import read_settings as read_settings
from posse.live.config.agent_settings import settings_from_data as settings_from_data
from posse.live.config.experiment_settings import ExperimentSettings as ExperimentSettings
from posse.live.config.http_settings import read_http_settings as read_http_settings
