"""What the steps of `relay.py` use: one bundle, wired in app.py. It decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autohedge.attempt import Attempter
from autohedge.examiner import Examiner
from autohedge.fallback import Chains
from autohedge.memory.affinity import Affinity
from autohedge.memory.cooling import Cooling
from autohedge.memory.health import Health
from autohedge.memory.meters import Meters
from autohedge.memory.registry import Registry
from autohedge.memory.retired import Retirements
from autohedge.rules.budget import RetryBudget
from autohedge.settings.model import Settings
from autohedge.state.resilient import Shared
from autohedge.waiting import WaitingRoom
from autohedge.watchers.learning import Learner


@dataclass(slots=True)
class Tools:
    """`settings` and `chains` are replaced as a whole on reload; the rest lives as long as the process."""

    settings: Settings
    chains: Chains
    registry: Registry
    health: Health
    examiner: Examiner
    learner: Learner
    attempter: Attempter
    room: WaitingRoom
    retries: RetryBudget
    meters: Meters
    retirements: Retirements
    cooling: Cooling
    shared: Shared
    affinity: Affinity
    exhausted: Callable[[str, str], None]  # hears the model and the reason when nobody could answer
    clock: Callable[[], float]  # seconds of the process's monotonic clock
    wall: Callable[[], float]  # epoch seconds
