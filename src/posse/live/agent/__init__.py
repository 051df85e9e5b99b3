"""A live agent: action selection, evidence, posteriors, site pooling and verdicts, without I/O."""

from posse.live.agent.action_selection import Choice as Choice
from posse.live.agent.action_selection import Shares as Shares
from posse.live.agent.agent import Agent as Agent
from posse.live.agent.agent import Decision as Decision
from posse.live.agent.arm_status import ArmStatus as ArmStatus
from posse.live.agent.context_evidence import ExpansionPoint as ExpansionPoint
from posse.live.agent.factory import NO_CONTEXTS_UNDER_FLOWS as NO_CONTEXTS_UNDER_FLOWS
from posse.live.agent.factory import NO_WINNER_OF_CONTEXTS as NO_WINNER_OF_CONTEXTS
from posse.live.agent.measures import Measures as Measures
from posse.live.agent.measures import Metric as Metric
from posse.live.agent.measures import read_metrics as read_metrics
from posse.live.agent.rendezvous_hashing import MAX_VISITOR_LENGTH as MAX_VISITOR_LENGTH
from posse.live.agent.side_sums import MetricStatus as MetricStatus
from posse.live.agent.side_sums import SideSums as SideSums
from posse.live.agent.side_sums import Uplift as Uplift
from posse.live.agent.site_pooling import SITES_IN_CONTEXT as SITES_IN_CONTEXT
from posse.live.agent.site_pooling import SiteMap as SiteMap
from posse.live.agent.site_pooling import check_sites as check_sites
from posse.live.agent.verdicts import NO_STOP as NO_STOP
from posse.live.agent.verdicts import Judgement as Judgement
from posse.live.agent.verdicts import NamedVerdict as NamedVerdict
from posse.live.agent.verdicts import Stop as Stop
from posse.live.agent.verdicts import add_forecast as add_forecast
