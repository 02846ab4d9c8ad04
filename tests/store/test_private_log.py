"""A private log read on from where a reader stopped gives what a reader from the beginning gets."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.store import Position, PrivateLog


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=12))
def test_a_reader_gets_what_was_appended_after_any_position(steps):
    """Readers stop in different places; each gets all records behind its own, once, and the blobs put since then."""
    log = PrivateLog("one", now=0.0)
    said, reader, heard, blobs = [], Position(), [], set()
    places = [(Position(), 0)]
    for n, (count, put, look) in enumerate(steps):
        if put:
            log.save_blob(f"b{n}.txt", f"text {n}")
        records = [{"type": "user", "uuid": f"{n}-{k}"} for k in range(count)]
        said += records
        places.append((log.commit(records, at=float(n)), len(said)))
        if look:
            reading = log.read_since(reader)
            heard += [record["uuid"] for record in reading.records]
            blobs |= set(reading.blob_sums)
            reader = reading.position
            assert heard == [record["uuid"] for record in said]
    said.append({"type": "user", "uuid": "last"})
    log.commit(said[-1:], at=99.0)
    assert blobs | set(log.read_since(reader).blob_sums) == {f"b{n}.txt" for n, (_, put, _) in enumerate(steps) if put}
    for place, count in places:
        assert [one["uuid"] for one in log.read_since(place).records] == [one["uuid"] for one in said[count:]]
