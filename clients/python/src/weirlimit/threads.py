"""The connections of the blocking client. They are safe for threads, and for a fork.

Threads share a connection in a pipeline. No thread of its own reads: one of the threads that wait
for an answer reads for all, and passes this on when it has its own. A reading thread would cost a
switch of threads for each call, and would be missing after a fork.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import deque
from typing import Any, Deque, List, Optional, Tuple, TypeVar, Union

from . import lanes
from .address import Address
from .calls import Call
from .core import Arrived, Outcome, Pause, Send, Steps
from .errors import AuthError, BusyError, ProtocolError, UnavailableError, WeirError
from .forks import renew_after_fork

T = TypeVar("T")
CHUNK = 64 << 10  # bytes of one read
STALE = 1.0  # seconds without a call after which a connection is looked at before its use


def run(steps: Steps[T], pool: "Pool") -> T:
    """Makes the steps of a call."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = make(step, pool)
            except BaseException as err:  # such as an interrupt from the keyboard
                step = steps.throw(err)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def make(step: Any, pool: "Pool") -> Outcome:
    """Makes one step."""
    if isinstance(step, Pause):
        time.sleep(step.seconds)
        return None
    assert isinstance(step, Send)
    try:
        return pool.exchange(step.call, step.deadline)
    except WeirError as err:
        return err


class Ticket:
    """The place of a call in a pipeline."""

    __slots__ = ("answer", "error", "done", "waits", "wake", "seen")

    def __init__(self) -> None:
        self.answer: Any = None
        self.error: Optional[WeirError] = None
        self.done = False
        self.waits = False  # its thread has sent the call
        self.wake = threading.Event()  # set when it is done, and when its thread shall read
        self.seen = 0  # reads of the connection before the call was sent

    def finish(self, answer: Any, error: Optional[WeirError]) -> None:
        self.answer, self.error, self.done = answer, error, True
        self.wake.set()


class Plain:
    """Bytes as they are."""

    def encrypt(self, data: bytes) -> bytes:
        return data

    def decrypt(self, data: bytes) -> bytes:
        return data


class Tls:
    """Bytes within TLS, without input and output: threads send and read at the same time."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def shake_hands(self, sock: socket.socket, deadline: float) -> None:
        """Makes the handshake."""
        while True:
            try:
                self._tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            if self._outgoing.pending:
                sock.sendall(self._outgoing.read())
            if done:
                return
            sock.settimeout(left(deadline))
            data = sock.recv(CHUNK)
            if not data:
                raise ConnectionError("the connection ended within the handshake of TLS")
            self._incoming.write(data)

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        parts: List[bytes] = []
        while True:
            try:
                part = self._tls.read(CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return b"".join(parts)
            if not part:
                return b"".join(parts)
            parts.append(part)


class Connection(lanes.Lane):
    """A connection with calls in flight."""

    def __init__(self, address: Address, deadline: float) -> None:
        self._address = address
        self._codec = address.codec()
        self._stream: Union[Plain, Tls] = Plain()
        self._writing = threading.Lock()  # held while bytes are sent, in the order of the tickets
        self._state = threading.Lock()  # protects the following, the codec and the stream
        self._pending: Deque[Ticket] = deque()
        self._reading = False  # a thread reads
        self._reads = 0
        self._used = time.monotonic()
        self.error: Optional[WeirError] = None  # why it has ended
        self._socket = dial(address, deadline)
        # Each direction has a socket object, because a timeout belongs to the object.
        self._writer = self._socket.dup()
        try:
            self._greet(deadline)
        except BaseException:
            self.drop()
            raise

    def _greet(self, deadline: float) -> None:
        """Sends what precedes the first call."""
        if self._address.tls is not None:
            self._stream = Tls(self._address.tls, self._address.host)
            self._stream.shake_hands(self._socket, deadline)
        greeting = self._codec.greeting()
        if greeting:
            self._writer.settimeout(left(deadline))
            self._writer.sendall(self._stream.encrypt(greeting))

    @property
    def usable(self) -> bool:
        """Reports whether further calls can be sent. The pool's lock, which protects in_flight, is
        held."""
        if self.error is not None or self._codec.closing:
            return False
        idle = self.in_flight == 0 and time.monotonic() - self._used > STALE
        if idle and self._has_ended():
            self.fail(UnavailableError(f"weir at {self._address.place} hung up"))
            self.drop()
            return False
        return True

    def _has_ended(self) -> bool:
        """Reports whether the server has closed an idle connection."""
        self._socket.settimeout(0)
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def exchange(self, call: Call, deadline: float) -> Outcome:
        """Sends a call and returns its answer. It raises a WeirError if there is none."""
        ticket = Ticket()
        data = self._codec.encode(call)
        self._send(ticket, data, deadline)
        try:
            self._await(ticket, deadline)
        except BaseException:  # an interrupt: the answer arrives without a reader
            self._abandon(ticket)
            raise
        if ticket.error is not None:
            raise copy_of(ticket.error)
        return Arrived(self._codec.read, ticket.answer)

    def _send(self, ticket: Ticket, data: bytes, deadline: float) -> None:
        if not self._writing.acquire(timeout=left(deadline)):
            raise self._timeout()
        try:
            with self._state:
                if self.error is not None:
                    raise copy_of(self.error)
                ticket.seen = self._reads
                self._pending.append(ticket)
                data = self._stream.encrypt(data)
            self._writer.settimeout(left(deadline))
            self._writer.sendall(data)
        except OSError as err:
            self.fail(lost(self._address, err))
        except BaseException:  # an interrupt: perhaps a part was sent
            self.fail(UnavailableError(f"a call to weir at {self._address.place} was interrupted"))
            raise
        finally:
            self._writing.release()

    def _await(self, ticket: Ticket, deadline: float) -> None:
        """Waits until the ticket is done."""
        while not ticket.done:
            with self._state:
                if ticket.done:
                    return
                reads = not self._reading
                self._reading = True
                ticket.waits = True
                ticket.wake.clear()
            if reads:
                self._read_until(ticket, deadline)
            elif not ticket.wake.wait(left(deadline)) and not ticket.done:
                self._expire(ticket)

    def _read_until(self, ticket: Ticket, deadline: float) -> None:
        """Reads for all threads until the ticket is done."""
        try:
            while not ticket.done:
                self._socket.settimeout(left(deadline))
                data = self._socket.recv(CHUNK)
                self._take(data)
        except (TimeoutError, socket.timeout, BlockingIOError):
            self._expire(ticket)
        except OSError as err:
            self.fail(lost(self._address, err))
        except WeirError as err:
            self.fail(err)
        except BaseException:  # an interrupt: perhaps bytes are lost, and answers would go astray
            self.fail(UnavailableError(f"a call to weir at {self._address.place} was interrupted"))
            raise
        finally:
            self._pass_on()

    def _take(self, data: bytes) -> None:
        """Gives the answers in data to their tickets."""
        if not data:
            raise UnavailableError(f"weir at {self._address.place} closed the connection")
        with self._state:
            self._reads += 1
            self._used = time.monotonic()
            for answer in self._codec.feed(self._stream.decrypt(data)):
                if not self._pending:
                    raise UnavailableError(f"weir at {self._address.place} sent too many answers")
                self._pending.popleft().finish(answer, None)

    def _pass_on(self) -> None:
        """Lets another thread read."""
        with self._state:
            self._reading = False
            self._elect_locked()

    def _elect_locked(self) -> None:
        """Wakes a thread that waits, unless one reads."""
        if self._reading:
            return
        for ticket in self._pending:
            if ticket.waits and not ticket.done:
                ticket.wake.set()
                return

    def _expire(self, ticket: Ticket) -> None:
        """Ends the wait for a ticket. If nothing has arrived meanwhile, the connection is dead."""
        with self._state:
            if ticket.done:
                return
            silent = ticket.seen == self._reads
            ticket.finish(None, self._timeout())
            if silent:
                self._fail_locked(self._timeout())
            self._elect_locked()

    def _abandon(self, ticket: Ticket) -> None:
        with self._state:
            ticket.finish(None, self._timeout())
            self._elect_locked()

    def _timeout(self) -> UnavailableError:
        return UnavailableError(f"weir at {self._address.place} did not answer in time")

    def drop(self) -> None:
        """Closes the files. No thread uses them: another file could get their numbers, and a
        thread that still reads would read from that."""
        self._socket.close()
        self._writer.close()

    def fail(self, error: WeirError) -> None:
        """Ends the connection and all of its calls."""
        with self._state:
            self._fail_locked(error)

    def _fail_locked(self, error: WeirError) -> None:
        if self.error is not None:
            return
        self.error = error
        for ticket in self._pending:
            if not ticket.done:
                ticket.finish(None, error)
        self._pending.clear()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the threads that read and send
        except OSError:
            pass


def dial(address: Address, deadline: float) -> socket.socket:
    """Connects to weir: to the first address of its name that answers in time."""
    if address.path is not None:
        return connect(socket.AF_UNIX, address.path, deadline)
    failure: OSError = OSError("its name has no address")
    for family, place in look_up(address.host, address.port, deadline):
        try:
            sock = connect(family, place, deadline)
        except OSError as err:
            failure = err
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise failure


Places = List[Tuple[int, Any]]  # families and addresses of sockets


def look_up(host: str, port: int, deadline: float) -> Places:
    """Returns the addresses of a name. A look-up has no timeout, so a thread of its own makes it,
    and goes on alone where it takes too long."""
    try:
        return addresses(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # a name, not an address
    found: Places = []
    failed: List[OSError] = []
    done = threading.Event()

    def find() -> None:
        try:
            found.extend(addresses(host, port, 0))
        except OSError as err:
            failed.append(err)
        finally:
            done.set()

    threading.Thread(target=find, name="weirlimit look-up", daemon=True).start()
    if not done.wait(left(deadline)):
        raise OSError("the look-up of its name timed out")
    if failed:
        raise failed[0]
    return found


def addresses(host: str, port: int, flags: int) -> Places:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, place) for family, _, _, _, place in found]


def connect(family: int, place: Any, deadline: float) -> socket.socket:
    """Returns a connected socket."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(left(deadline))
        sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock


def left(deadline: float) -> float:
    """Returns the seconds until the deadline, at least a little: 0 would not wait at all."""
    return max(deadline - time.monotonic(), 0.0001)


def lost(address: Address, err: OSError) -> WeirError:
    """Returns the error of a connection. A wrong certificate is no outage."""
    reason = str(err) or type(err).__name__
    if isinstance(err, ssl.SSLCertVerificationError):
        return AuthError(
            f"the certificate of {address.place} is not trusted: {err.verify_message}; pass "
            'tls=ssl.create_default_context(cafile="ca.pem") with its authority'
        )
    if isinstance(err, ssl.SSLError) and err.reason in NO_TLS:
        return ProtocolError(
            f"{address.place} does not use TLS; write redis:// or http:// in the url, or start "
            "weir serve with --tls-cert"
        )
    return UnavailableError(f"weir at {address.place} is not reached: {reason}")


NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # of an answer that is not TLS


def copy_of(err: WeirError) -> WeirError:
    """Returns the same error for another call: each raise adds to the traceback of an error."""
    return type(err)(*err.args)


class Waiter(lanes.Waiter[Connection]):
    """A thread that waits for a connection."""

    def __init__(self) -> None:
        self.connection: Optional[Connection] = None
        self.woken = threading.Event()

    @property
    def gone(self) -> bool:
        return False  # it leaves the queue itself

    def give(self, lane: Optional[Connection]) -> None:
        self.connection = lane
        self.woken.set()


class Pool:
    """The connections of a client."""

    def __init__(self, address: Address, max_pending: int) -> None:
        self._address = address
        self._max_pending = max_pending
        self._reset()
        renew_after_fork(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()  # protects the following
        self._lanes: lanes.Lanes[Connection] = lanes.Lanes(self._address, self._max_pending)

    def after_fork(self) -> None:
        """Forgets the connections of the parent process, which goes on with them."""
        for connection in self._lanes.open:
            connection.drop()
        self._reset()

    def exchange(self, call: Call, deadline: float) -> Outcome:
        """Sends a call over a connection with room."""
        with self._lock:
            self._lanes.enter()
        try:
            connection = self._acquire(deadline)
            try:
                return connection.exchange(call, deadline)
            finally:
                self._release(connection)
        finally:
            with self._lock:
                self._lanes.leave()

    def _acquire(self, deadline: float) -> Connection:
        """Returns a connection with room for a call, perhaps a new one."""
        while True:
            waiter = None
            with self._lock:
                connection = self._lanes.take()
                if connection is not None:
                    return connection
                if self._lanes.may_connect():
                    self._lanes.connecting += 1
                else:
                    waiter = Waiter()
                    self._lanes.waiters.append(waiter)
            if waiter is None:
                return self._connect(deadline)
            connection = self._wait(waiter, deadline)
            if connection is not None:
                return connection

    def _wait(self, waiter: Waiter, deadline: float) -> Optional[Connection]:
        """Waits for a connection; None = look for one again."""
        if waiter.woken.wait(left(deadline)):
            return waiter.connection
        with self._lock:
            if waiter.woken.is_set():
                return waiter.connection
            self._lanes.waiters.remove(waiter)
        raise self._lanes.none_free()

    def _connect(self, deadline: float) -> Connection:
        """Opens a connection."""
        connection = None
        try:
            connection = Connection(self._address, deadline)
            return connection
        except OSError as err:
            raise lost(self._address, err) from None
        finally:
            with self._lock:
                self._lanes.connecting -= 1
                if connection is not None:
                    self._lanes.connected(connection)
                self._lanes.wake()

    def _release(self, connection: Connection) -> None:
        with self._lock:
            ended = self._lanes.release(connection)
        if ended:
            connection.fail(UnavailableError("the connection has ended"))
            connection.drop()

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            connections = self._lanes.close()
            unused = [each for each in connections if each.in_flight == 0]
        for connection in connections:
            connection.fail(BusyError(lanes.CLOSED))
        for connection in unused:
            connection.drop()
