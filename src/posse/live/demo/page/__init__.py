"""The page of a swarm: a demonstration in which agents are killed, cut off and lied to."""

from posse.live.demo.page.demonstration import Show as Show
from posse.live.demo.page.stage import Story as Story
from posse.live.demo.page.stage import default_story as default_story
