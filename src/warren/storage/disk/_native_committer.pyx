"""The thread behind `NativeCommitter`: system calls from an array of addresses, and no Python.

The thread is the operating system's own, unknown to the interpreter. What passes between it and the
loop is one `Work` and two signals (eventfds, or pipes where there are none):

    loop:    start()    fill `Work`, set `is_pending`, signal `request`
    thread:             write, sync, note how it went, clear `is_pending`, signal `answer`
    loop:    collect()  read how it went, let the buffers go

Rules:

1. `Work` belongs to the loop until `request` is signalled and again after `answer` was read, to the
   thread in between; there is no lock because there is no moment at which both may look. The two
   system calls order memory between them.
2. The Python buffers are exported (pinned, a `bytearray` cannot be resized) from `start` until
   `collect`; the thread knows their addresses, never the objects.
3. The thread answers each request once, so `answer` is readable at most once per batch.
4. All signals are blocked in the thread: a signal for the interpreter must wake the loop instead.

An object that is dropped without `stop` still finishes its batch and joins the thread.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.errno cimport EINTR, EIO, errno
from posix.types cimport off_t
from posix.unistd cimport close


cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int descriptor, const iovec* vectors, int count)
    ssize_t pwritev(int descriptor, const iovec* vectors, int count, off_t offset)


cdef extern from *:
    """
    #include <fcntl.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdint.h>
    #include <unistd.h>

    /* A signal is a pair of descriptors, [0] to wait on and [1] to raise. */
    #ifdef __linux__
    #include <sys/eventfd.h>
    static int warren_signal_open(int *pair, int is_blocking) {
        pair[0] = pair[1] = eventfd(0, EFD_CLOEXEC | (is_blocking ? 0 : EFD_NONBLOCK));
        return pair[0] < 0 ? -1 : 0;
    }
    static int warren_sync(int fd) { return fdatasync(fd); }
    #else
    static int warren_signal_open(int *pair, int is_blocking) {
        if (pipe(pair) < 0) return -1;
        fcntl(pair[0], F_SETFD, FD_CLOEXEC);
        fcntl(pair[1], F_SETFD, FD_CLOEXEC);
        if (!is_blocking) fcntl(pair[0], F_SETFL, O_NONBLOCK);
        return 0;
    }
    #ifdef F_FULLFSYNC
    static int warren_sync(int fd) { return fcntl(fd, F_FULLFSYNC); }
    #else
    static int warren_sync(int fd) { return fsync(fd); }
    #endif
    #endif

    static void warren_signal_raise(const int *pair) {
        uint64_t one = 1;
        while (write(pair[1], &one, sizeof one) < 0 && errno == EINTR) {}
    }
    /* 1 when it was raised, 0 when not (only of one that does not block). */
    static int warren_signal_take(const int *pair) {
        uint64_t count;
        ssize_t got;
        while ((got = read(pair[0], &count, sizeof count)) < 0 && errno == EINTR) {}
        return got > 0;
    }

    static int warren_thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
        sigset_t all, before;
        pthread_attr_t attributes;
        int code;
        sigfillset(&all);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 256 * 1024);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        code = pthread_create(thread, &attributes, run, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    #ifdef __linux__
        if (!code) pthread_setname_np(*thread, "warren-commit");
    #endif
        return code;
    }
    """
    ctypedef struct pthread_t:
        pass
    int pthread_join(pthread_t thread, void** result) nogil
    int sync_file "warren_sync"(int descriptor) nogil
    int signal_open "warren_signal_open"(int* pair, int is_blocking)
    void signal_raise "warren_signal_raise"(const int* pair) noexcept nogil
    int signal_take "warren_signal_take"(const int* pair) noexcept nogil
    int thread_start "warren_thread_start"(
        pthread_t* thread, void* (*run)(void*) noexcept nogil, void* argument
    )


cdef enum:
    VECTORS_MAX = 1024  # what one writev takes


cdef struct Write:
    int descriptor
    off_t offset  # negative: at the end
    Py_ssize_t vectors_end  # of the batch's vectors, those from the end of the write before


cdef struct Work:
    int[2] request
    int[2] answer
    bint is_pending
    bint is_stopping

    iovec* vectors
    Write* writes
    int* syncs
    Py_ssize_t writes_count
    Py_ssize_t syncs_count

    int code  # errno of the first call that failed, or 0
    bint is_sync  # whether that was a sync
    int descriptor  # of which file


cdef int write_all(
    int descriptor, off_t offset, iovec* vectors, Py_ssize_t count
) noexcept nogil:
    """0, or the errno; short writes go on where they stopped."""
    cdef ssize_t went
    while count:
        if vectors.iov_len == 0:
            vectors += 1
            count -= 1
            continue
        if offset < 0:
            went = writev(descriptor, vectors, <int>min(count, VECTORS_MAX))
        else:
            went = pwritev(descriptor, vectors, <int>min(count, VECTORS_MAX), offset)
        if went < 0:
            if errno == EINTR:
                continue
            return errno
        if went == 0:
            return EIO
        if offset >= 0:
            offset += went
        while count and <size_t>went >= vectors.iov_len:
            went -= vectors.iov_len
            vectors += 1
            count -= 1
        if went:
            vectors.iov_base = <char*>vectors.iov_base + went
            vectors.iov_len -= went
    return 0


cdef int sync(int descriptor) noexcept nogil:
    while sync_file(descriptor) < 0:
        if errno != EINTR:
            return errno
    return 0


cdef void perform(Work* work) noexcept nogil:
    cdef Py_ssize_t position, first = 0
    work.is_sync = False
    for position in range(work.writes_count):
        work.descriptor = work.writes[position].descriptor
        work.code = write_all(
            work.descriptor, work.writes[position].offset, work.vectors + first,
            work.writes[position].vectors_end - first,
        )
        if work.code:
            return
        first = work.writes[position].vectors_end
    work.is_sync = True
    for position in range(work.syncs_count):
        work.descriptor = work.syncs[position]
        work.code = sync(work.descriptor)
        if work.code:
            return


cdef void* run(void* argument) noexcept nogil:
    cdef Work* work = <Work*>argument
    while True:
        signal_take(work.request)
        if work.is_pending:
            perform(work)
            work.is_pending = False
            signal_raise(work.answer)
        if work.is_stopping:
            return NULL


@cython.final
cdef class CommitThread:
    cdef Work work
    cdef pthread_t thread
    cdef bint is_running
    cdef bint is_busy
    cdef Py_buffer* buffers
    cdef Py_ssize_t buffers_count

    def __cinit__(self):
        self.work.request[0] = self.work.request[1] = -1
        self.work.answer[0] = self.work.answer[1] = -1
        if signal_open(self.work.request, True) < 0 or signal_open(self.work.answer, False) < 0:
            raise OSError(errno, "no descriptor for the commit thread")
        code = thread_start(&self.thread, run, &self.work)
        if code:
            raise OSError(code, "cannot start the commit thread")
        self.is_running = True

    def __dealloc__(self):
        self.stop()
        self.release()
        close_pair(self.work.request)
        close_pair(self.work.answer)
        PyMem_Free(self.work.vectors)
        PyMem_Free(self.work.writes)
        PyMem_Free(self.work.syncs)
        PyMem_Free(self.buffers)

    @property
    def descriptor(self):
        """Readable when there is something to collect."""
        return self.work.answer[0]

    def start(self, writes, syncs, placed=()):
        """Begin with a batch; `collect` must have returned the one before."""
        if self.is_busy or not self.is_running:
            raise RuntimeError("the commit thread takes one batch at a time")
        try:
            self.take_writes(
                [(descriptor, -1, list(pieces)) for descriptor, pieces in writes]
                + [(descriptor, offset, list(pieces)) for descriptor, offset, pieces in placed]
            )
            self.take_syncs(list(syncs))
        except BaseException:
            self.release()
            raise
        self.is_busy = True
        self.work.code = 0
        self.work.is_pending = True
        signal_raise(self.work.request)

    def collect(self):
        """None while it is not done, else (errno or 0, whether a sync failed, of which file)."""
        if not signal_take(self.work.answer):
            return None
        assert self.is_busy
        self.is_busy = False
        self.release()
        return self.work.code, self.work.is_sync, self.work.descriptor

    cpdef stop(self):
        """Finish what was begun and end the thread; harmless when it has ended."""
        if not self.is_running:
            return
        self.is_running = False
        self.work.is_stopping = True
        with nogil:
            signal_raise(self.work.request)
            pthread_join(self.thread, NULL)

    cdef int take_writes(self, list batch) except -1:
        cdef Py_ssize_t count = 0, position
        cdef Py_buffer* view
        cdef tuple write
        cdef object piece
        for write in batch:
            count += len(<list>write[2])
        self.work.writes = <Write*>grown(self.work.writes, len(batch) * sizeof(Write))
        self.work.vectors = <iovec*>grown(self.work.vectors, count * sizeof(iovec))
        self.buffers = <Py_buffer*>grown(self.buffers, count * sizeof(Py_buffer))
        for position, write in enumerate(batch):
            for piece in <list>write[2]:
                view = &self.buffers[self.buffers_count]
                PyObject_GetBuffer(piece, view, PyBUF_SIMPLE)
                self.work.vectors[self.buffers_count].iov_base = view.buf
                self.work.vectors[self.buffers_count].iov_len = view.len
                self.buffers_count += 1
            self.work.writes[position].descriptor = write[0]
            self.work.writes[position].offset = write[1]
            self.work.writes[position].vectors_end = self.buffers_count
        self.work.writes_count = len(batch)
        return 0

    cdef int take_syncs(self, list syncs) except -1:
        cdef Py_ssize_t position
        self.work.syncs = <int*>grown(self.work.syncs, len(syncs) * sizeof(int))
        for position, descriptor in enumerate(syncs):
            self.work.syncs[position] = descriptor
        self.work.syncs_count = len(syncs)
        return 0

    cdef void release(self):
        cdef Py_ssize_t position
        for position in range(self.buffers_count):
            PyBuffer_Release(&self.buffers[position])
        self.buffers_count = 0


cdef void* grown(void* memory, size_t size) except NULL:
    memory = PyMem_Realloc(memory, size if size else 1)
    if memory == NULL:
        raise MemoryError
    return memory


cdef void close_pair(int* pair) noexcept:
    if pair[0] >= 0:
        close(pair[0])
    if pair[1] >= 0 and pair[1] != pair[0]:
        close(pair[1])
