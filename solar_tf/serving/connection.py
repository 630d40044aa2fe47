"""Connections that cannot be held open by clients who never finish a request."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 32_768  # of the request line and the headers together
REQUEST_SECONDS = 20  # from a request's first byte to its last


class Connection(HttpToolsProtocol):
    """uvicorn's connection on httptools, which has neither limit of its own."""

    head_bytes, deadline = 0, None  # None: no request is being received

    def connection_made(self, transport):
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data):
        if self.deadline is None:
            self._expect_request()
        self.head_bytes += len(data)
        # Before its headers are complete, a message has no cycle that could push back.
        if self._in_head() and self.head_bytes > HEAD_BYTES:
            self._refuse(431, "Request Header Fields Too Large")
            return
        super().data_received(data)

    def _expect_request(self):
        self.head_bytes = 0
        self.deadline = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

    def _in_head(self):
        return self.cycle is None or not self.cycle.more_body

    def on_headers_complete(self):
        super().on_headers_complete()
        self.head_bytes = 0

    def on_message_complete(self):
        super().on_message_complete()
        self.head_bytes = 0
        self._forget_deadline()

    def connection_lost(self, exc):
        self._forget_deadline()
        super().connection_lost(exc)

    def _forget_deadline(self):
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _too_slow(self):
        self.deadline = None
        if not self.transport.is_closing():
            self._refuse(408, "Request Timeout")

    def _refuse(self, status, reason):
        self._forget_deadline()
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()
