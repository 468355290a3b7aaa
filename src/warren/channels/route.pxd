from warren.model.counters cimport ExchangeCounters


cdef class Route:
    cdef public tuple queues
    cdef public Py_ssize_t width
    cdef public ExchangeCounters counters
