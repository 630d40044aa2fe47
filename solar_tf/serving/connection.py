"""HTTP connections with limits on a request's head and on the time to send it."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 32_768  # request line and headers together
REQUEST_SECONDS = 20  # from a request's first byte to its last


class Connection(HttpToolsProtocol):
    """uvicorn's connection on httptools, which has neither limit itself."""

    head_bytes, in_head, deadline = 0, True, None  # None: no request is being received

    def connection_made(self, transport):
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data):
        if self.deadline is None:
            self._expect_request()
        self.head_bytes += len(data)
        super().data_received(data)
        # Until the headers are complete, no other code can refuse the request.
        if self.in_head and self.head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, "Request Header Fields Too Large")

    def _expect_request(self):
        self.head_bytes, self.in_head = 0, True
        self.deadline = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

    def on_headers_complete(self):
        super().on_headers_complete()
        self.in_head = False

    def on_message_complete(self):
        super().on_message_complete()
        self.head_bytes, self.in_head = 0, True  # the next request may have begun already
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
