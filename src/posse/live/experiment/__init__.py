"""A live experiment: its decisions, reward window, recorded history, audit and exchange."""

from posse.live.experiment.decision_request import FLAG_PREFIX as FLAG_PREFIX
from posse.live.experiment.decision_request import FLAG_SECONDS as FLAG_SECONDS
from posse.live.experiment.decision_request import ID_PATTERN as ID_PATTERN
from posse.live.experiment.decision_request import MAX_BATCH_ITEMS as MAX_BATCH_ITEMS
from posse.live.experiment.decision_request import Arm as Arm
from posse.live.experiment.decision_request import Context as Context
from posse.live.experiment.decision_request import DecisionRequest as DecisionRequest
from posse.live.experiment.decision_request import Visitor as Visitor
from posse.live.experiment.experiment import Audit as Audit
from posse.live.experiment.experiment import LiveExperiment as LiveExperiment
from posse.live.experiment.history import SCALES as SCALES
from posse.live.experiment.history import History as History
from posse.live.experiment.history import Kind as Kind
from posse.live.experiment.reward_window import BUCKETS as BUCKETS
from posse.live.experiment.reward_window import RewardWindow as RewardWindow
