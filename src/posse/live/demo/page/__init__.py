"""The page of a demonstration in which agents are killed, cut off and lied to."""

from posse.live.demo.page.demonstration import Demonstration as Demonstration
from posse.live.demo.page.stage import Scenario as Scenario
from posse.live.demo.page.stage import default_scenario as default_scenario
