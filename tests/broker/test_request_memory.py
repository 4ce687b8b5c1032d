from penstock.broker.request_memory import RequestMemory


def test_memory_is_full_beyond_its_limit_and_wakes_who_waits_when_there_is_room():
    memory = RequestMemory(100)
    woken: list[str] = []
    memory.add(100)
    assert not memory.is_full
    memory.add(1)
    assert memory.is_full
    memory.wake_when_there_is_room(lambda: woken.append("one"))
    memory.add(-1)
    assert woken == ["one"]
    memory.add(-100)
    assert woken == ["one"], "everybody is woken once"
    assert memory.held == 0


def test_who_has_left_is_not_woken():
    memory = RequestMemory(0)
    woken: list[str] = []

    def wake() -> None:
        woken.append("gone")

    memory.add(1)
    memory.wake_when_there_is_room(wake)
    memory.forget(wake)
    memory.add(-1)
    assert woken == []


def test_without_a_limit_it_is_never_full():
    memory = RequestMemory(-1)
    memory.add(1 << 40)
    assert not memory.is_full
