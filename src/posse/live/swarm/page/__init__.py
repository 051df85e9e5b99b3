"""The page of a swarm: a demonstration in which agents are killed, cut off and lied to."""

from posse.live.swarm.page.show import Show as Show
from posse.live.swarm.page.story import Story as Story
from posse.live.swarm.page.story import default_story as default_story
