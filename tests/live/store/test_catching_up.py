"""What a process that was killed in a commit left in the system's memory."""

from posse.live.store import Store


def synced(store):
    return store.read_rows("SELECT flushed FROM agent")[0][0]


def test_a_start_syncs_before_it_answers(tmp_path):
    """A reward in a log that was not synced was acknowledged again, and gone with the power."""
    with Store.open(tmp_path / "a.db", fingerprint="f") as store:
        before = synced(store)
    with Store.open(tmp_path / "a.db", fingerprint="f") as store:
        assert synced(store) == before + 1
        assert not store.file.writer.ahead_of_disk
