"""A query continues with the checkpoint of another server: copies, refusals, and removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from spark_stream.checkpoints import Checkpoint, copied, location_of, own_place, problem, refusal, unreachable
from spark_stream.results import NONE, DeliveryProgress
from spark_stream.resumption import Resumption, claim
from synergy_nb.dataflow.tuples import END

HERE, THERE = "sc://here:15002", "sc://there:15002"


class Session:
    """A session of a server that executes tasks at once, as they arrive when they have been sent."""

    version = "4.3.0"

    def __init__(self, place: Path, **conf: str) -> None:
        self.conf = {"spark.sql.warehouse.dir": f"file:{place}", **conf}
        self._answers: list[str] = []

    def range(self, *_: int) -> Session:
        return self

    def mapInArrow(self, work: Callable[[Iterator[Any]], Iterator[pa.RecordBatch]], _: str) -> Session:  # noqa: N802
        shipped = cloudpickle.loads(cloudpickle.dumps(work))  # type: ignore[no-untyped-call]
        self._answers = [answer for batch in shipped(iter([None])) for answer in batch["answer"].to_pylist()]
        return self

    def collect(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(answer=answer) for answer in self._answers]


def files(root: Path, *names: str) -> None:
    """Write files that say their names."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def state(versions: range, name: str = "{}.delta") -> list[str]:
    return [f"state/0/{partition}/{name.format(version)}" for partition in (0, 1) for version in versions]


def checkpoint(root: Path, *, committed: int, planned: int) -> Path:
    """What Spark keeps of a query whose micro-batches have come so far."""
    files(root, "metadata", "sources/0/info", "state/0/_metadata/metadata", *state(range(1, planned + 2)))
    files(root, *(f"offsets/{number}" for number in range(planned + 1)))
    files(root, *(f"commits/{number}" for number in range(committed + 1)))
    return root


def at(batch: int, checkpoint: Path, former: tuple[str, ...] = ()) -> Resumption:
    """A query of the server there that has handed over so many micro-batches."""
    return Resumption("q", DeliveryProgress(batch, 0, 0, 0, ()), (), THERE, str(checkpoint), former)


def placed(since: Resumption, server: str, folder: Path | None = None) -> Checkpoint:
    """The checkpoint with which the next peer continues a query, on a server."""
    found = Checkpoint("q-1", since, 1)
    found.place(server, folder)
    return found


# -- what is copied --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [2, 3, 4])
def test_a_copy_ends_with_the_micro_batch_that_the_peer_knows_of(tmp_path: Path, committed: int) -> None:
    """Whatever a run that has lost its peer has done behind that; with the plan of the next one, if there is one."""
    old = checkpoint(tmp_path / "old", committed=committed, planned=max(committed + 1, 3))
    assert copied(str(old), str(tmp_path / "new"), 3) == ""
    last = min(committed, 3)
    assert names(tmp_path / "new") == {
        *("metadata", "sources/0/info", "state/0/_metadata/metadata"),
        *(f"offsets/{number}" for number in range(last + 2)),
        *(f"commits/{number}" for number in range(last + 1)),
        *state(range(1, 5)),
    }
    assert (tmp_path / "new" / "offsets" / "3").read_text() == "offsets/3"


def test_later_writes_of_a_lost_run_do_not_reach_the_copy(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", committed=3, planned=3)
    assert copied(str(old), str(tmp_path / "new"), 3) == ""
    before = names(tmp_path / "new")
    files(old, "offsets/4", "commits/4", *state(range(5, 6)))
    (old / "state/0/0/4.delta").write_text("something else")
    assert names(tmp_path / "new") == before
    assert (tmp_path / "new" / "state/0/0/4.delta").read_text() == "state/0/0/4.delta"


def test_states_of_every_form_are_cut_and_unfinished_files_left_out(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", committed=1, planned=1)
    kept = ["state/0/0/000012-1a2b.sst", *state(range(1, 3), "{}.zip"), *state(range(1, 3), "{}_1a.changelog")]
    late = [*state(range(3, 4), "{}.zip"), *state(range(3, 4), "{}_1a.changelog"), *state(range(3, 4), "{}.snapshot")]
    files(old, *kept, *late, "offsets/.2.9f.tmp", "state/0/0/.3.delta.9f.tmp", "offsets/3.crc", "commits/1.crc")
    assert copied(str(old), str(tmp_path / "new"), 1) == ""
    found = names(tmp_path / "new")
    assert found >= {*kept, "commits/1.crc"}
    assert not found & {*late, "offsets/3.crc"}
    assert not any("/." in name for name in found)


def test_a_copy_names_its_own_schemas_of_states(tmp_path: Path) -> None:
    """Those of keyed states, which Spark would look for in a checkpoint that is gone."""
    old = checkpoint(tmp_path / "old", committed=0, planned=0)
    written, schema = old / "state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_1a"
    files(old, "state/0/_metadata/v2/0", schema)
    written.write_text(f'v2\n{{"stateSchemaFilePaths":["file:{old}/{schema}"]}}')
    assert copied(str(old), f"file:{tmp_path}/new", 0) == ""
    found = (tmp_path / "new" / "state/0/_metadata/v2/0").read_text()
    assert found == f'v2\n{{"stateSchemaFilePaths":["file:{tmp_path}/new/{schema}"]}}'
    assert (tmp_path / "new" / schema).exists()


def test_a_copy_takes_the_place_of_one_that_was_not_finished(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", committed=0, planned=0)
    files(tmp_path / "new", "commits/7", "something")
    assert copied(str(old), f"file:{tmp_path}/new", 0) == ""
    assert not names(tmp_path / "new") & {"commits/7", "something"}


@pytest.mark.parametrize(("committed", "planned"), [(1, 3), (2, 2), (-1, -1)])
def test_a_checkpoint_that_is_not_as_far_is_refused(tmp_path: Path, committed: int, planned: int) -> None:
    old = checkpoint(tmp_path / "old", committed=committed, planned=planned)
    assert copied(str(old), str(tmp_path / "new"), 3) == f"it ends with micro-batch {committed}; expected 3"


# -- at a peer -------------------------------------------------------------------------------------------------------


def test_another_server_begins_with_a_copy_of_its_own_and_removes_both_at_the_end(tmp_path: Path) -> None:
    """Where both servers have one location, as those that share a store."""
    old = checkpoint(tmp_path / "q", committed=3, planned=3)
    session: Any = Session(tmp_path)
    mine = placed(at(3, old), HERE)
    assert mine.open(session) == f"file:{tmp_path}/q-1"
    assert names(tmp_path / "q-1") == names(old)
    assert mine.former == (str(old),)
    files(tmp_path / "q-1", "commits/4")
    assert mine.open(session) == mine.where, "it is copied once"
    assert "commits/4" in names(tmp_path / "q-1")
    mine.clear(session)
    assert not names(tmp_path)


@pytest.mark.parametrize("place", ["elsewhere/q", "here/other", "here/q-1x", "here/../elsewhere/q", "here/link", "."])
@pytest.mark.parametrize("local", [True, False])
def test_what_a_snapshot_names_is_removed_only_if_it_is_of_the_query_and_here(
    tmp_path: Path, place: str, local: bool
) -> None:
    """Whatever a peer that lies says of its checkpoints on other servers."""
    root, mine = tmp_path / "here", tmp_path / "here" / "q-2"
    files(tmp_path, *(f"{each}/kept" for each in ("elsewhere/q", "here/other", "here/q-1x")), "here/q/gone")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    session: Any = Session(root)
    found = Checkpoint("q-2", Resumption("q", former=(f"{tmp_path}/{place}", str(root / "q"))), 2)
    found.place(HERE, mine if local else None)
    found.open(session)
    found.clear(session)
    assert names(tmp_path) == {"elsewhere/q/kept", "here/other/kept", "here/q-1x/kept"}
    assert not mine.exists()


@pytest.mark.parametrize(
    ("checkpoint", "location", "place"),
    [
        ("s3a://store/all/q-3", "s3a://store/all", "q-3"),
        ("s3a://store/all/q", "s3a://store/all/", "q"),
        ("s3a://store/all/../q", "s3a://store/all", None),
        ("s3a://other/all/q", "s3a://store/all", None),
        ("hdfs://store/all/q", "s3a://store/all", None),
        ("/all/q", "s3a://store/all", None),
        ("file:///all/q/checkpoint", "file:/all", "q/checkpoint"),
        ("/all/q", "file:/all", "q"),
        ("/all/q/state", "/all", None),
        ("/all", "/all", None),
    ],
)
def test_the_place_of_a_checkpoint_in_a_location(checkpoint: str, location: str, place: str | None) -> None:
    """Read without a connection to the store."""
    assert own_place(checkpoint, location, "q") == place


@pytest.mark.parametrize("where", ["elsewhere/q/checkpoint", "here/other/checkpoint", "here/link/q/checkpoint"])
def test_a_query_continues_on_its_server_only_with_a_checkpoint_of_its_own(tmp_path: Path, where: str) -> None:
    files(tmp_path, "elsewhere/q/checkpoint/kept", "here/other/checkpoint/kept")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "elsewhere")
    before, session = names(tmp_path), cast("Any", Session(tmp_path / "here"))
    since = at(3, tmp_path / where)
    mine = Checkpoint("q-1", since, 1)
    expected = rf"continues with '{tmp_path / where}'; expected a folder of q in .*here"
    with pytest.raises(ValueError, match=expected):
        mine.place(THERE, tmp_path / "here" / "q-1")
    mine.clear(session)
    elsewhere = placed(since, THERE)
    with pytest.raises(ValueError, match=expected):
        elsewhere.open(session)
    elsewhere.clear(session)
    assert names(tmp_path) == before


@pytest.mark.parametrize("name", ["../q", "a/b", "", ".", "/q", "q\n"])
def test_a_snapshot_gives_a_query_no_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    mine = Checkpoint(name, Resumption(name), 0)
    with pytest.raises(ValueError, match="expected letters, digits and hyphens"):
        mine.place(HERE, tmp_path / "here" / name)
    mine.clear(None)
    assert not list(tmp_path.iterdir())


def test_the_same_server_goes_on_with_the_same_checkpoint(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "q" / "checkpoint", committed=3, planned=3)
    mine = placed(at(3, old), THERE, tmp_path / "q-1")
    session: Any = None  # nothing is asked of it
    assert mine.open(session) == str(old)
    assert mine.former == ()
    assert mine.folder == tmp_path / "q"
    claim(tmp_path / "q", 2)
    assert mine.is_claimed
    mine.clear(None)
    assert names(old), "it is another peer's now"


def test_a_checkpoint_without_a_server_is_that_of_the_peer_before_and_is_not_removed(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "there" / "q", committed=3, planned=3)
    since = at(3, old, (str(old),))
    mine = Checkpoint("q-1", since, 1)
    assert (mine.is_known, mine.is_claimed, Checkpoint("q-1", Resumption("q"), 1).is_known) == (True, False, False)
    handed = DeliveryProgress(4, 9, 7, 7, ())
    assert mine.resumption(handed, ()) == msgspec.structs.replace(since, handed=handed)
    session: Any = Session(tmp_path / "here")
    mine.clear(session)
    assert names(old)


def test_another_peer_continues_from_where_the_checkpoint_is_now(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "there" / "q", committed=3, planned=3)
    mine = placed(at(3, old), HERE)
    session: Any = Session(tmp_path / "here")
    where, handed = mine.open(session), DeliveryProgress(4, 9, 7, 7, ())
    assert mine.resumption(handed, ()) == Resumption("q", handed, (), HERE, where, (str(old),), "4.3.0")


@pytest.mark.parametrize("why", ["it ends with micro-batch 1; expected 3", "it is of Spark 4.2.1; expected the same"])
def test_a_copy_that_is_refused_is_never_named_as_the_checkpoint(tmp_path: Path, why: str) -> None:
    """Nor is one that is not whole yet: others would begin with it, and the one before be removed."""
    old = checkpoint(tmp_path / "q" / "checkpoint", committed=1 if "ends" in why else 3, planned=3)
    since, session = at(3, old), cast("Any", Session(tmp_path))
    mine = placed(msgspec.structs.replace(since, version="4.2.1" if "4.2" in why else "4.3.1"), HERE, tmp_path / "q-1")
    named: list[str] = []

    def asked(*_: int) -> Any:
        named.append(mine.where)
        return session

    session.range = asked
    with pytest.raises(ValueError, match=why):
        mine.open(session)
    assert {*named, mine.where} == {""}
    assert mine.resumption(since.handed, ()).checkpoint == str(old)
    assert problem(mine.since, "4.3.0").startswith(f"the checkpoint {old}: {why}")
    assert names(old)


def test_the_checkpoints_before_its_own_go_once_the_folder_knows_that_one(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "q" / "checkpoint", committed=3, planned=3)
    other = checkpoint(tmp_path / "elsewhere" / "q" / "checkpoint", committed=3, planned=3)
    mine = placed(at(3, old, (str(other),)), HERE, tmp_path / "q-1")
    session: Any = Session(tmp_path)
    where = mine.open(session)
    assert mine.resumption(NONE, ()).former == (str(other), str(old))
    assert names(old), "the folder may know no other one"
    mine.leave_former()
    assert not old.parent.exists()
    assert names(Path(where)) == names(other), "that of another location stays"
    assert mine.resumption(NONE, ()).former == ()


def test_what_is_found_of_a_query_says_whether_it_can_go_on(tmp_path: Path) -> None:
    gone = at(3, tmp_path / "q" / "checkpoint")
    assert (
        problem(gone, "4.3.0")
        == f"the checkpoint {tmp_path}/q/checkpoint is not there; expected that nobody removes it"
    )
    ended = msgspec.structs.replace(gone, handed=gone.handed._replace(emitted=END))
    assert problem(ended, "4.3.0") == problem(at(-1, tmp_path), "4.3.0") == "", "it is not needed"
    checkpoint(tmp_path / "moved" / "q" / "checkpoint", committed=3, planned=3)
    assert problem(gone.within(tmp_path / "moved"), "4.3.0") == ""


def test_a_query_that_has_handed_nothing_over_begins_anew_with_the_plan_of_its_first_micro_batch(
    tmp_path: Path,
) -> None:
    """Some results of which readers may have."""
    session: Any = Session(tmp_path / "here")
    mine = placed(at(-1, tmp_path / "gone"), HERE, tmp_path / "q-1")
    assert mine.open(session) == str(tmp_path / "q-1" / "checkpoint")
    old = checkpoint(tmp_path / "old", committed=-1, planned=0)
    mine = placed(at(-1, old), HERE, tmp_path / "q-2")
    assert names(Path(mine.open(session))) == names(old) - {*state(range(1, 2))}


def test_a_checkpoint_that_another_server_cannot_reach_is_refused_by_both_names(tmp_path: Path) -> None:
    session: Any = Session(tmp_path / "here")
    gone = tmp_path / "there" / "q"
    assert unreachable(session, str(gone), str(tmp_path / "here")) == "it is not to be found there"
    mine = placed(at(3, gone), HERE)
    expected = f"Spark at {HERE} cannot go on with the checkpoint of Spark at {THERE}, {gone}: "
    with pytest.raises(ValueError, match=expected.replace("(", r"\(")):
        mine.open(session)
    assert mine.where == ""
    assert refusal(HERE, at(3, gone), "why") == f"{expected}why"


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", committed=0, planned=0)
    files(tmp_path, "here")  # no folder
    session: Any = Session(tmp_path / "here")
    assert unreachable(session, str(old), str(tmp_path / "here"))
    assert unreachable(session, str(old), f"file:{tmp_path}/other%20place") == ""
    assert (tmp_path / "other place").is_dir()
    assert not names(tmp_path / "other place"), "what was tried leaves nothing"


def test_a_server_says_where_it_keeps_checkpoints(tmp_path: Path) -> None:
    session: Any = Session(tmp_path)
    assert location_of(session, tmp_path / "own") == str(tmp_path / "own")
    assert location_of(session, None) == f"file:{tmp_path}"
    told: Any = Session(tmp_path, **{"spark.sql.streaming.checkpointLocation": "hdfs://name/checkpoints/"})
    told.conf = SimpleNamespace(get=lambda key, default=None: "hdfs://name/c/" if "checkpoint" in key else default)
    assert location_of(told, None) == "hdfs://name/c"
