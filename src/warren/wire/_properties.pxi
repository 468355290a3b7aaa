"""The property block, taken apart and checked (twin: `_properties_py.py`)."""

cdef enum:
    CONTENT_TYPE = 0x8000
    HEADERS = 0x2000
    DELIVERY_MODE = 0x1000
    PRIORITY = 0x0800
    REPLY_TO = 0x0200
    EXPIRATION = 0x0100
    TIMESTAMP = 0x0040
    USER_ID = 0x0010
    CLUSTER_ID = 0x0004

    TABLE_DEPTH_MAX = 100  # twin: limits.TABLE_DEPTH_MAX
    # All ones: not a finite number, and Erlang (so RabbitMQ) has no other floats.
    FLOAT_EXPONENT = 0x7F80
    DOUBLE_EXPONENT = 0x7FF0

    DIRECT_REPLY_TO_BYTES = 21
    EXPIRATION_NONE = -1
    EXPIRATION_ODD = -2
    EXPIRATION_DIGITS_MAX = 12
    DIGIT_ZERO = 48

cdef const char* DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
cdef int64_t EXPIRATION_MS_MAX = 315360000000


cdef Py_ssize_t value_bytes(const uint8_t* p, Py_ssize_t left, int depth) noexcept nogil:
    """Bytes of one typed field value (type letter included), or -1 if it is malformed."""
    cdef Py_ssize_t size
    cdef uint8_t kind
    if left < 1:
        return -1
    kind = p[0]
    if kind == b'V':
        size = 0
    elif kind == b't' or kind == b'b' or kind == b'B':
        size = 1
    elif kind == b's' or kind == b'u':
        size = 2
    elif kind == b'I' or kind == b'i' or kind == b'f':
        size = 4
    elif kind == b'l' or kind == b'L' or kind == b'd' or kind == b'T':
        size = 8
    elif kind == b'D':
        size = 5
    elif kind == b'S' or kind == b'x' or kind == b'F' or kind == b'A':
        if left < 5:
            return -1
        size = 4 + <Py_ssize_t>read32(p + 1)
        if 1 + size > left:
            return -1
        if kind == b'F' and not table_is_sound(p + 5, size - 4, depth + 1):
            return -1
        if kind == b'A' and not array_is_sound(p + 5, size - 4, depth + 1):
            return -1
    else:
        return -1
    if 1 + size > left:
        return -1
    if kind == b'f' and read16(p + 1) & FLOAT_EXPONENT == FLOAT_EXPONENT:
        return -1
    if kind == b'd' and read16(p + 1) & DOUBLE_EXPONENT == DOUBLE_EXPONENT:
        return -1
    return 1 + size


cdef bint array_is_sound(const uint8_t* p, Py_ssize_t left, int depth) noexcept nogil:
    cdef Py_ssize_t size
    if depth >= TABLE_DEPTH_MAX:
        return False
    while left > 0:
        size = value_bytes(p, left, depth)
        if size < 0:
            return False
        p += size
        left -= size
    return True


cdef bint table_is_sound(const uint8_t* p, Py_ssize_t left, int depth) noexcept nogil:
    cdef Py_ssize_t size
    if depth >= TABLE_DEPTH_MAX:
        return False
    while left > 0:
        size = 1 + p[0]
        if size >= left:
            return False
        p += size
        left -= size
        size = value_bytes(p, left, depth)
        if size < 0:
            return False
        p += size
        left -= size
    return True


cdef bint names_more_keys(const uint8_t* p, Py_ssize_t left) noexcept nogil:
    """Whether a (sound) header table has CC or BCC, which add routing keys."""
    cdef Py_ssize_t size
    while left > 0:
        if p[0] == 2 and memcmp(p + 1, b"CC", 2) == 0:
            return True
        if p[0] == 3 and memcmp(p + 1, b"BCC", 3) == 0:
            return True
        size = 1 + p[0]
        size += value_bytes(p + size, left - size, 0)
        p += size
        left -= size
    return False


cdef int64_t parse_expiration(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef int64_t value = 0
    cdef Py_ssize_t i
    if size == 0 or size > EXPIRATION_DIGITS_MAX:
        return EXPIRATION_ODD
    for i in range(size):
        if text[i] < b'0' or text[i] > b'9':
            return EXPIRATION_ODD
        value = value * 10 + (text[i] - DIGIT_ZERO)
    return value if value <= EXPIRATION_MS_MAX else EXPIRATION_ODD


cdef int parse_properties(PropertyBlock block) except -1:
    """Check the whole block and pick out what routing and queues look at."""
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(block.raw)
    cdef Py_ssize_t left = PyBytes_GET_SIZE(block.raw)
    cdef Py_ssize_t size
    cdef uint32_t bit = CONTENT_TYPE
    block.expiration_ms = EXPIRATION_NONE
    block.is_malformed = True
    if left < 2:
        return 0
    block.flags = read16(p)
    p += 2
    left -= 2
    while bit >= CLUSTER_ID:
        if not block.flags & bit:
            bit >>= 1
            continue
        if bit == DELIVERY_MODE or bit == PRIORITY:
            size = 1
        elif bit == TIMESTAMP:
            size = 8
        elif bit == HEADERS:
            size = 4 + <Py_ssize_t>read32(p) if left >= 4 else left + 1
        else:
            size = 1 + <Py_ssize_t>p[0] if left >= 1 else 1
        if size > left:
            return 0
        if bit == DELIVERY_MODE:
            block.persistent = p[0] == 2
        elif bit == PRIORITY:
            block.priority = p[0]
        elif bit == HEADERS:
            if not table_is_sound(p + 4, size - 4, 0):
                return 0
            block.needs_vetting |= names_more_keys(p + 4, size - 4)
        elif bit == REPLY_TO:
            block.needs_vetting |= (
                size == 1 + DIRECT_REPLY_TO_BYTES
                and memcmp(p + 1, DIRECT_REPLY_TO, DIRECT_REPLY_TO_BYTES) == 0
            )
        elif bit == EXPIRATION:
            block.expiration_ms = parse_expiration(p + 1, size - 1)
            block.needs_vetting |= block.expiration_ms == EXPIRATION_ODD
        elif bit == USER_ID:
            block.needs_vetting = True
        p += size
        left -= size
        bit >>= 1
    block.is_malformed = left != 0
    return 0
