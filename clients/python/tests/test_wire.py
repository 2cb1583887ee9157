"""The parsers without input and output, on every split of their bytes and on damaged ones."""

from __future__ import annotations

import random
import unittest

from weirlimit import ProtocolError, UnavailableError, calls, http1, resp
from weirlimit.calls import Target
from weirlimit.errors import WeirError

REPLIES = (
    b":-12\r\n+OK\r\n-ERR no policy\r\n$6\r\n\xe5\xbc\xa0\xe4\xb8\x89\r\n$-1\r\n"
    b"*2\r\n*0\r\n*1\r\n$0\r\n\r\n"
)
PARSED = [-12, "OK", resp.ErrorReply("ERR", "no policy"), "张三", None, [[], [""]]]

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 429 Too Many Requests\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    b'3\r\n{"a\r\n3;x=y\r\n":1\r\n1\r\n}\r\n0\r\n\r\n'
    b"HTTP/1.1 204 No Content\r\n\r\n"
)
BODIES = [(200, b"{}"), (429, b'{"a":1}'), (204, b"")]


class Parsing(unittest.TestCase):
    def test_replies_in_two_pieces(self):
        for at in range(len(REPLIES) + 1):
            parser = resp.Parser()
            got = parser.feed(REPLIES[:at]) + parser.feed(REPLIES[at:])
            self.assertEqual(got, PARSED, at)

    def test_replies_byte_by_byte(self):
        parser = resp.Parser()
        got = [reply for byte in REPLIES for reply in parser.feed(bytes([byte]))]
        self.assertEqual(got, PARSED)

    def test_answers_in_two_pieces(self):
        for at in range(len(ANSWERS) + 1):
            parser = http1.Parser()
            got = parser.feed(ANSWERS[:at]) + parser.feed(ANSWERS[at:])
            self.assertEqual([(answer.status, answer.body) for answer in got], BODIES, at)

    def test_damaged_bytes_are_no_answer(self):
        """They are parsed, incomplete, or a ProtocolError; never another exception or a hang."""
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        for kind, intact in ((resp.Parser, REPLIES), (http1.Parser, ANSWERS)):
            for _ in range(5_000):
                data = bytearray(intact)
                for _ in range(chance.randint(1, 4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                parser = kind()
                try:
                    parser.feed(bytes(data))
                except ProtocolError:
                    pass
                except Exception as err:
                    self.fail(f"seed {seed}: {bytes(data)!r}: {err!r}")

    def test_endless_bytes_are_no_answer(self):
        for parser, piece in (
            (resp.Parser(), b":" + b"1" * 1000),
            (http1.Parser(), b"HTTP/1.1 200"),
        ):
            with self.assertRaises(ProtocolError):
                for _ in range(10_000):
                    parser.feed(piece)
                    piece = b"1" * 1000
        with self.assertRaises(ProtocolError):
            resp.Parser().feed(b"$9999999999\r\n")
        with self.assertRaises(ProtocolError):
            resp.Parser().feed(b"*9999999999\r\n")
        with self.assertRaisesRegex(ProtocolError, "arrays in arrays"):
            resp.Parser().feed(b"*1\r\n" * 20_000)

    def test_other_servers_are_named(self):
        codec = resp.Codec(None, "127.0.0.1:7070")
        with self.assertRaisesRegex(ProtocolError, "answers in HTTP, not RESP"):
            codec.feed(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        codec = http1.Codec(None, "127.0.0.1:7073", "127.0.0.1:7073")
        with self.assertRaisesRegex(ProtocolError, "is no answer of weir in HTTP"):
            codec.feed(b"-ERR Protocol error: this is HTTP\r\n")
        codec = resp.Codec(None, "weir:7073")
        with self.assertRaisesRegex(ProtocolError, "weir:7073 uses TLS; write rediss://"):
            codec.feed(b"\x15\x03\x01\x00\x02\x02\x46")

    def test_an_answer_without_a_length_is_that_of_another_server(self):
        check = calls.about_key("check", Target("five"), (), 1)
        for status, kind in ((400, ProtocolError), (503, UnavailableError)):
            codec = http1.Codec(None, "proxy:80", "proxy:80")
            head = b"HTTP/1.0 %d No\r\nCache-Control: no-cache\r\n\r\n<html>" % status
            [answer] = codec.feed(head)
            self.assertTrue(codec.closing)
            with self.assertRaisesRegex(kind, str(status)):
                codec.read(check, answer)

    def test_answers_of_other_versions_are_named(self):
        check = calls.about_key("check", Target("five"), (("user", "ann"),), 1, "id")
        whole = [1, 1, 4, 0, 60000, "", 1, 0, 0, 0]
        codec = resp.Codec(None, "weir:7073")
        self.assertFalse(codec.read(check, whole)["replayed"])
        self.assertEqual(codec.read(check, [*whole, "later", 7])["granted"], 1)
        for reply in (None, 1, "OK", [], whole[:8], whole[:9], ["1", *whole[1:]], [whole]):
            with self.assertRaisesRegex(
                ProtocolError, "another version: .* use weirlimit and weir"
            ):
                codec.read(check, reply)
        codec = http1.Codec(None, "weir:7070", "weir:7070")
        null = b'{"allowed":true,"granted":null,"remaining":1,"retry_after_ms":0,"reset_after_ms":0'
        null += b',"limit":"","at":"2026-11-20T13:07:31Z"}'
        for body in (b"", b"[]", b"{}", b"null", b'{"allowed":true}', b"<html>", b"\xff", null):
            with self.assertRaisesRegex(ProtocolError, "no answer of weir, or of another version"):
                codec.read(check, http1.Answer(200, {}, body))

    def test_other_servers_give_no_decision(self):
        check = calls.about_key("check", Target("five"), (), 1)
        codec = resp.Codec(None, "redis:6379")
        with self.assertRaisesRegex(ProtocolError, "redis:6379 is a Redis, no weir"):
            codec.read(check, resp.ErrorReply("ERR", "unknown command 'WEIR.CHECK', with args"))
        with self.assertRaisesRegex(ProtocolError, "of another version"):
            codec.read(check, resp.ErrorReply("ERR", "unknown command WEIR.X; Its commands are Y"))
        codec = http1.Codec(None, "proxy:80", "proxy:80")
        for status in (301, 400, 404, 500):
            for body in (b"<html>", b'{"detail":null}', b"[" * 100_000):
                with self.assertRaises(ProtocolError):
                    codec.read(check, http1.Answer(status, {}, body))
        for status in (404, 405):  # of a weir without the call
            with self.assertRaisesRegex(ProtocolError, "weirlimit and weir of the same version"):
                codec.read(check, http1.Answer(status, {}, b'{"detail":"no such call"}'))
        with self.assertRaisesRegex(UnavailableError, "made no decision: disk full"):
            codec.read(check, http1.Answer(500, {}, b'{"detail":"disk full"}'))
        with self.assertRaises(WeirError) as raised:
            codec.read(check, http1.Answer(502, {}, b"<html>"))
        self.assertEqual(str(raised.exception), "proxy:80 has no weir behind it: status 502")

    def test_instants_of_http(self):
        for text, want in (
            ("2026-11-20T13:07:31.000005Z", 1795180051000005),
            ("2026-11-20T13:07:31Z", 1795180051000000),
            ("2026-11-20T13:07:31.5Z", 1795180051500000),
        ):
            self.assertEqual(http1.micros(text), want)
        for text in ("2026-11-20", "2026-11-20T13:07:31+01:00", ""):
            with self.assertRaises(ValueError):
                http1.micros(text)
