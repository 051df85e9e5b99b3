"""Durable state of one live agent: an SQLite file that survives crashes and power failures."""

from posse.live.store.decisions import ARMS as ARMS
from posse.live.store.decisions import ArmLists as ArmLists
from posse.live.store.decisions import pack_probabilities as pack_probabilities
from posse.live.store.export import export_decisions as export_decisions
from posse.live.store.export import read_snapshot as read_snapshot
from posse.live.store.export import write_csv as write_csv
from posse.live.store.export import write_json_lines as write_json_lines
from posse.live.store.export import write_parquet as write_parquet
from posse.live.store.group_commit import Disk as Disk
from posse.live.store.group_commit import StoreError as StoreError
from posse.live.store.records import Conflict as Conflict
from posse.live.store.records import DecisionRecord as DecisionRecord
from posse.live.store.records import DecisionState as DecisionState
from posse.live.store.records import LateReward as LateReward
from posse.live.store.records import RewardOutcome as RewardOutcome
from posse.live.store.records import SupersededReward as SupersededReward
from posse.live.store.records import Transition as Transition
from posse.live.store.records import Unknown as Unknown
from posse.live.store.records import validate_number as validate_number
from posse.live.store.records import validate_text as validate_text
from posse.live.store.store import Store as Store
from posse.live.store.timeline import MAX_EVENTS as MAX_EVENTS
from posse.live.store.timeline import Event as Event
from posse.live.store.timeline import HistoryPoint as HistoryPoint
from posse.live.store.timeline import list_names as list_names
from posse.live.store.transactions import Participant as Participant
