"""Laws of stopping: it waits for a place where it does no harm, but a second Ctrl-C does not wait."""

import os
import signal
import threading

import pytest

from tonetune.interrupt import Stops, sigterm_interrupts

INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.fixture(autouse=True)
def heeded_signals():
    """A shell starts its background jobs with SIGINT ignored."""
    before = signal.signal(INT, signal.default_int_handler)
    yield
    assert signal.getsignal(INT) is signal.default_int_handler
    signal.signal(INT, before)


def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [INT, TERM])
def test_a_stop_waits_for_the_next_place_where_it_is_heeded(number):
    done = []
    with pytest.raises(KeyboardInterrupt), Stops() as stops:  # noqa: PT012
        send(number)
        done.append("bookkeeping")
        with stops.heeded():
            done.append("work")
    assert done == ["bookkeeping"] and not stops.at_once


@pytest.mark.parametrize("number", [INT, TERM])
def test_where_it_is_heeded_it_comes_at_once(number):
    done = []
    with pytest.raises(KeyboardInterrupt), Stops() as stops, stops.heeded():  # noqa: PT012
        send(number)
        done.append("work")
    assert done == [] and not stops.at_once


def test_a_stop_that_found_no_such_place_comes_at_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt), Stops():  # noqa: PT012
        send(TERM)
        done.append("everything")
    assert done == ["everything"]


@pytest.mark.parametrize("first", [INT, TERM])
def test_a_second_keyboard_interrupt_leaves_at_once(first):
    with pytest.raises(KeyboardInterrupt), Stops() as stops:  # noqa: PT012
        send(first)
        send(INT)
        raise AssertionError("still there")
    assert stops.at_once


def test_a_second_one_of_the_system_does_not_disturb_the_saving():
    saved = []
    with pytest.raises(KeyboardInterrupt), Stops() as stops:  # noqa: PT012
        try:
            with stops.heeded():
                send(INT)
        except KeyboardInterrupt:
            send(TERM)
            saved.append("checkpoint")
            raise
    assert saved == ["checkpoint"] and not stops.at_once


def test_an_ignored_signal_stays_ignored_and_handlers_are_put_back():
    before = signal.signal(INT, signal.SIG_IGN)
    try:
        with Stops() as stops, stops.heeded():
            send(INT)
        assert signal.getsignal(INT) is signal.SIG_IGN
    finally:
        signal.signal(INT, before)
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts(), Stops():
        send(TERM)
    assert signal.getsignal(TERM) is signal.SIG_DFL


def test_in_another_thread_nothing_changes():
    handlers = []

    def work():
        with Stops() as stops, stops.heeded():
            handlers.append(signal.getsignal(TERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.SIG_DFL]
