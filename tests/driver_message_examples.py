"""An example of each message of a driver to its own peer."""

from __future__ import annotations

from synergy_nb.control import driver_messages as driver
from synergy_nb.control.peer import DriverMessage
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction, SlackViolation
from synergy_nb.dataflow.streams.hosting.input_reports import InputReport, StreamsMeasured
from synergy_nb.events import SkippedLines
from synergy_nb.models.signatures import Segment

PREDICTION = Prediction(
    "r", "filter", 90.0, 95.0, "source", 0.02, 0.03, "line", 0.001, 2e-5, 1e-6, 0.001, 0.2
)  # fmt: skip


EXAMPLES: tuple[DriverMessage, ...] = (
    driver.JoinRing("a"),
    driver.OfferComponents(),
    driver.WithdrawComponents(("apply:score@1f",)),
    driver.LeaveRing(),
    driver.LookUpHosts(1, ("filter",), 3.0),
    driver.SubmitPlan("r", b"plan", number=2),
    driver.LeaseRenewed("r"),
    driver.ShareApplication("r", "ann", "read", 4),
    driver.HoldApplication("r", True, 4),
    driver.ChangePlan("r", "begin", b"plan", 4),
    driver.StopApplication("r"),
    driver.ReleaseResults("r"),
    driver.MoveComponent("r", "filter", "b", 3),
    driver.DelayMeasured("r", 0.25),
    driver.SinksEnded("r"),
    driver.PartReady("r", "part"),
    driver.OperatorStopped("r", "filter", "no memory"),
    driver.AttemptOutdated("r", "filter", 1 << 10),
    driver.LinesMalformed("r", "part", "source", SkippedLines("rows.csv", 2, "line 7: field 'v': 'x'")),
    driver.ReaderStalled("r", "source", "filter", "took nothing"),
    driver.CopyReady("r", "filter"),
    driver.CopyUnusable("r", "filter", "its Spark is elsewhere"),
    driver.CopiesLagging("r", "filter", {"b": "behind"}),
    driver.LoadsMeasured((driver.MeasuredLoad("r", "filter", (Segment(0.0, 1.0, 0.5), Segment(1.0, 2.0, 0.1))),)),
    driver.PredictionsMade(PeerPrediction((PREDICTION,), 90.0, 95.0, 0.6, 0.7)),
    driver.InputsReported((StreamsMeasured("r", "f~1", {0: InputReport("o", 0, 1.5, 7, 9)}),)),
    driver.SlackLost(SlackViolation(PREDICTION, -0.01, 0.2, 6, 1.5)),
    driver.BandwidthMeasured("tcp://a:1", 1.2e6),
    driver.StreamProfiled("packets", {"rate": 10.0, "signature": "2:42 8:2"}),
    driver.ProfileExpired("packets"),
    driver.LinkFailed("b"),
    driver.CoresAdvertised("b", 0.5),
    driver.SpeedMeasured(0.4, 1.1),
    driver.OverheadsMeasured({"hop": (0.001, 1e-6)}, {"filter": (0.002, 1e-6)}),
    driver.BandwidthsLimited((1e6, 2e6), {"b": 1}),
    driver.SparkOffered(0.5, local=True),
    driver.PlacementDecided("r", 1, Roles({"source": "a"}), 0.5, "text"),
)
