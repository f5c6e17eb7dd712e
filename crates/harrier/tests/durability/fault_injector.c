/* Runs a program, and decides what becomes of the changes that it makes to the files of a folder.
 *
 * Usage:  fault_injector FOLDER REPORT ACTION [N [FILE]] -- PROGRAM ARGUMENT...
 * Action: none             nothing happens
 *         kill-before N    SIGKILL in place of the N-th change
 *         kill-middle N    SIGKILL once half of the N-th change is done, if it is a write; else before it
 *         kill-after N     SIGKILL behind the N-th change, before the program learns of it
 *         write-kill-before, write-kill-middle, write-kill-after N
 *                          likewise, and only writes of segments (NAME.seg) count as changes
 *         EIO N            the N-th change fails with this error
 *         ENOSPC N         likewise
 *         full N FILE      from the N-th change on no file NAME.new can be created or extended, until FILE exists
 *         short N          from the N-th change on each write of several blocks writes half of them
 * Leaves: in REPORT a line for each change that was touched: its number, the system call, the file.
 * How:    a seccomp filter hands the system calls that change files to a child process, in whose place the program runs:
 *         its process id, status and output are those of the program. Libraries and languages make no difference to it.
 * Ends:   with status 77 if the system does not allow this.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SKIPPED = 77, BLOCK_BYTES = 4096, PATH_BYTES_MAX = 4096, CALL_BYTES_MAX = 8 << 20 };

enum action { NONE, KILL_BEFORE, KILL_MIDDLE, KILL_AFTER, FAIL, FULL, SHORT };

/* What a system call does, and where its file is among its arguments. */
enum form { BY_DESCRIPTOR, WRITES, WRITES_AT, BY_PATH, BY_FOLDER, RENAMES };

static const struct call {
    int number;
    const char *name;
    enum form form;
} calls[] = {
    {__NR_write, "write", WRITES},
    {__NR_pwrite64, "pwrite", WRITES_AT},
    /* Not cut in the middle: they count, and fail. */
    {__NR_writev, "writev", BY_DESCRIPTOR},
    {__NR_pwritev, "pwritev", BY_DESCRIPTOR},
    {__NR_pwritev2, "pwritev2", BY_DESCRIPTOR},
    {__NR_fsync, "fsync", BY_DESCRIPTOR},
    {__NR_fdatasync, "fdatasync", BY_DESCRIPTOR},
    {__NR_ftruncate, "ftruncate", BY_DESCRIPTOR},
    {__NR_fallocate, "fallocate", BY_DESCRIPTOR},
    {__NR_openat, "open", BY_FOLDER},
    {__NR_unlinkat, "unlink", BY_FOLDER},
    {__NR_mkdirat, "mkdir", BY_FOLDER},
    {__NR_renameat, "rename", RENAMES},
    {__NR_renameat2, "rename", RENAMES},
#ifdef __NR_rename
    {__NR_rename, "rename", BY_PATH},
#endif
#ifdef __NR_unlink
    {__NR_unlink, "unlink", BY_PATH},
#endif
#ifdef __NR_mkdir
    {__NR_mkdir, "mkdir", BY_PATH},
#endif
};
enum { CALLS = sizeof calls / sizeof *calls };

static const char *folder, *room;
static int report;
static enum action action;
static int error_number, counts_segments_only;
static long at, seen;
static pid_t program;
static int program_fd;
static char *bytes;

static void fail(const char *what) {
    fprintf(stderr, "fault_injector: %s: %s\n", what, strerror(errno));
    exit(SKIPPED);
}

/* Text of the program. */
static int text_of(__u64 address, char *text, size_t size) {
    for (size_t len = 0; len < size; len++) {
        struct iovec here = {text + len, 1}, there = {(void *)(address + len), 1};
        if (process_vm_readv(program, &here, 1, &there, 1, 0) != 1) return -1;
        if (!text[len]) return 0;
    }
    return -1;
}

/* The path behind a descriptor of the program. */
static int path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", program, descriptor);
    ssize_t len = readlink(link, path, PATH_BYTES_MAX - 1);
    if (len < 0) return -1;
    path[len] = 0;
    return 0;
}

/* The path of a name in a folder of the program. */
static int path_in(int descriptor, __u64 address, char *path) {
    char name[PATH_BYTES_MAX];
    if (text_of(address, name, sizeof name)) return -1;
    if (name[0] == '/') return strcpy(path, name) ? 0 : -1;
    if (descriptor == AT_FDCWD || path_of(descriptor, path)) return -1;
    size_t len = strlen(path);
    snprintf(path + len, PATH_BYTES_MAX - len, "/%s", name);
    return 0;
}

/* The file that a call changes, and where it is moved, if it is; -1 if it is none of the folder. */
static int changed(const struct call *call, const __u64 *args, char *path, char *to) {
    int found = -1;
    switch (call->form) {
    case BY_DESCRIPTOR:
    case WRITES:
    case WRITES_AT:
        found = path_of((int)args[0], path);
        break;
    case BY_PATH:
        found = path_in(AT_FDCWD, args[0], path);
        if (!found && !strcmp(call->name, "rename")) found = path_in(AT_FDCWD, args[1], to);
        break;
    case BY_FOLDER:
        found = path_in((int)args[0], args[1], path);
        break;
    case RENAMES:
        found = path_in((int)args[0], args[1], path) || path_in((int)args[2], args[3], to);
        break;
    }
    size_t len = strlen(folder);
    return !found && !strncmp(path, folder, len) && (path[len] == '/' || !path[len]) ? 0 : -1;
}

/* The part of a write that leaves out half of its blocks; all of a short one. */
static size_t half_of(size_t len) {
    return len < 2 * BLOCK_BYTES ? len : len / 2 / BLOCK_BYTES * BLOCK_BYTES;
}

/* Does a write of the program, or so many bytes of it. Returns what the program is told. */
static long write_for(const struct call *call, const __u64 *args, size_t len) {
    if (len > CALL_BYTES_MAX) len = CALL_BYTES_MAX;
    struct iovec here = {bytes, len}, there = {(void *)args[1], len};
    if (process_vm_readv(program, &here, 1, &there, 1, 0) != (ssize_t)len) return -EFAULT;
    int file = (int)syscall(__NR_pidfd_getfd, program_fd, (int)args[0], 0);
    if (file < 0) return -errno;
    long done = call->form == WRITES ? write(file, bytes, len) : pwrite(file, bytes, len, (off_t)args[3]);
    if (done < 0) done = -errno;
    close(file);
    return done;
}

/* Does a change of the program as a whole. */
static void do_for(const struct call *call, const __u64 *args, const char *path, const char *to) {
    if (call->form == WRITES || call->form == WRITES_AT) {
        write_for(call, args, (size_t)args[2]);
    } else if (!strcmp(call->name, "rename")) {
        rename(path, to);
    } else if (!strcmp(call->name, "unlink")) {
        unlink(path);
    } else if (!strcmp(call->name, "mkdir")) {
        mkdir(path, 0700);
    } else if (!strcmp(call->name, "open")) {
        close(open(path, (int)args[2] | O_CLOEXEC, (mode_t)args[3]));
    } else {
        int file = (int)syscall(__NR_pidfd_getfd, program_fd, (int)args[0], 0);
        if (file >= 0 && call->number == __NR_ftruncate && ftruncate(file, (off_t)args[1])) perror("ftruncate");
        if (file >= 0 && (call->number == __NR_fsync || call->number == __NR_fdatasync)) fsync(file);
        close(file);
    }
}

static int ends_with(const char *path, const char *end) {
    size_t len = strlen(path), of_end = strlen(end);
    return len >= of_end && !strcmp(path + len - of_end, end);
}

static int is_write(const struct call *call) { return call->form == WRITES || call->form == WRITES_AT; }

/* Decides about one change: what the program is told, or 1 if the system carries it out. */
static long decide(const struct call *call, const __u64 *args, const char *path, const char *to) {
    int is_it = seen == at;
    /* Files that replace others, or become segments. */
    int creates = ends_with(path, ".new") && (is_write(call) || !strcmp(call->name, "open"));
    switch (action) {
    case NONE:
        return 1;
    case FULL:
        is_it = seen >= at && creates && access(room, F_OK);
        break;
    case SHORT:
        is_it = seen >= at && is_write(call) && half_of((size_t)args[2]) < args[2];
        break;
    default:
        break;
    }
    if (!is_it) return 1;
    dprintf(report, "%ld %s %s\n", seen, call->name, path);
    switch (action) {
    case FAIL:
    case FULL:
        return -error_number;
    case SHORT:
        return write_for(call, args, half_of((size_t)args[2]));
    case KILL_MIDDLE:
        if (is_write(call)) write_for(call, args, half_of((size_t)args[2]) == args[2] ? args[2] / 2 : half_of((size_t)args[2]));
        break;
    case KILL_AFTER:
        do_for(call, args, path, to);
        break;
    default:
        break;
    }
    kill(program, SIGKILL);
    return -EIO;
}

static void supervise(int listener) {
    struct seccomp_notif_sizes sizes;
    if (syscall(__NR_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes)) fail("seccomp");
    struct seccomp_notif *call = calloc(1, sizes.seccomp_notif);
    struct seccomp_notif_resp *answer = calloc(1, sizes.seccomp_notif_resp);
    static char path[2 * PATH_BYTES_MAX], to[2 * PATH_BYTES_MAX];
    for (;;) {
        struct pollfd ready = {listener, POLLIN, 0};
        if (poll(&ready, 1, -1) < 0 && errno != EINTR) return;
        if (!(ready.revents & POLLIN)) {
            if (ready.revents) return;
            continue;
        }
        memset(call, 0, sizes.seccomp_notif);
        /* The program may have ended meanwhile. */
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, call)) continue;
        memset(answer, 0, sizes.seccomp_notif_resp);
        answer->id = call->id;
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        const struct call *known = calls;
        while (known->number != call->data.nr) known++;
        int is_of_segment = is_write(known) && !changed(known, call->data.args, path, to) && ends_with(path, ".seg");
        if (counts_segments_only ? is_of_segment : !changed(known, call->data.args, path, to)) {
            seen++;
            long result = decide(known, call->data.args, path, to);
            if (result != 1) {
                answer->flags = 0;
                answer->error = result < 0 ? (int)result : 0;
                answer->val = result < 0 ? 0 : result;
            }
        }
        /* A signal may have interrupted the call: the program makes it again. */
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer);
    }
}

/* Hands the calls of this process, and of what it becomes, to the listener. */
static int listen_to_calls(void) {
    struct sock_filter filter[4 * CALLS + 8];
    int len = 0;
    filter[len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < CALLS; i++) {
        filter[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, calls[i].number == __NR_openat ? 4 : 1);
        if (calls[i].number == __NR_openat) {
            /* Only where a file may be created. */
            filter[len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
            filter[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 1, 0);
            filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
        filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog code = {(unsigned short)len, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("prctl");
#ifdef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
    /* Signals wait until a call that was begun is over, where the system can do that. */
    int listener = (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &code);
    if (listener >= 0) return listener;
#endif
    return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &code);
}

static void send_descriptor(int socket, int descriptor) {
    char byte = 0, control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(socket, &message, 0) != 1) fail("sendmsg");
}

static int receive_descriptor(int socket) {
    int descriptor = -1;
    char byte, control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static void read_action(char **words) {
    static const char *const names[] = {"none", "kill-before", "kill-middle", "kill-after", "", "full", "short"};
    static const char prefix[] = "write-";
    at = words[1] ? atol(words[1]) : 0;
    if (!strncmp(words[0], prefix, strlen(prefix))) {
        counts_segments_only = 1;
        words[0] += strlen(prefix);
    }
    if (!strcmp(words[0], "EIO") || !strcmp(words[0], "ENOSPC")) {
        action = FAIL;
        error_number = words[0][1] == 'I' ? EIO : ENOSPC;
        return;
    }
    for (int i = NONE; i <= SHORT; i++) {
        if (strcmp(words[0], names[i])) continue;
        action = i;
        error_number = ENOSPC;
        room = action == FULL ? words[2] : NULL;
        return;
    }
    errno = EINVAL;
    fail(words[0]);
}

int main(int argc, char **argv) {
    int command = 1;
    while (command < argc && strcmp(argv[command], "--")) command++;
    if (command < 4 || command + 1 >= argc) {
        errno = EINVAL;
        fail("arguments");
    }
    folder = argv[1];
    argv[command] = NULL;
    read_action(argv + 3);
    report = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    int sockets[2];
    if (report < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets)) fail(argv[2]);
    program = getpid();
    if ((program_fd = (int)syscall(__NR_pidfd_open, program, 0)) < 0) fail("pidfd_open");
    pid_t supervisor = fork();
    if (supervisor < 0) fail("fork");
    if (!supervisor) {
        close(sockets[0]);
        /* The program's output ends with the program. */
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; i <= 2; i++) dup2(null, i);
        bytes = aligned_alloc(BLOCK_BYTES, CALL_BYTES_MAX);
        int listener = receive_descriptor(sockets[1]);
        if (listener >= 0 && bytes) supervise(listener);
        return 0;
    }
    close(sockets[1]);
    prctl(PR_SET_PTRACER, supervisor, 0, 0, 0);
    int listener = listen_to_calls();
    if (listener < 0) fail("seccomp");
    send_descriptor(sockets[0], listener);
    execvp(argv[command + 1], argv + command + 1);
    fail(argv[command + 1]);
}
