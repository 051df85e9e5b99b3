"""Controls: operators pin and pause arms, by signed records that spread through the network."""

from posse.live.controls.controls import SIGNATURE_INVALID as SIGNATURE_INVALID
from posse.live.controls.controls import Control as Control
from posse.live.controls.controls import ControlMessage as ControlMessage
from posse.live.controls.controls import Controls as Controls
from posse.live.controls.controls import describe_changes as describe_changes
from posse.live.controls.records import LONGEST_NAME as LONGEST_NAME
from posse.live.controls.records import LONGEST_REASON as LONGEST_REASON
from posse.live.controls.records import ONE_LINE as ONE_LINE
from posse.live.controls.records import ControlsAnswer as ControlsAnswer
from posse.live.controls.records import describe_person as describe_person
