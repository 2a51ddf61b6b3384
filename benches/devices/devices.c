// Ways between the kernel and a program for small packets, each measured by the same traffic (decision 52).
//
//   cc -O2 -pthread -o /tmp/devices benches/devices/devices.c
//   sudo /tmp/devices MODE [SECONDS] [BYTES] [gso | tcp]
//
// MODE is tun, tun2 (two queues, two threads), uso, uring or xdp. A sender in one namespace sends UDP packets of BYTES (64, with IP header)
// in four flows to a receiver in another; between them this program moves packets from one device to the other and does nothing else,
// as an emulator with an empty network would. With "gso" the sender gives the kernel trains (UDP_SEGMENT); with "tcp" the
// ends are iperf3 (mode tun or uso). It prints packets per second at the receiver and CPU time per packet of the mover: its own, with that of the kernel on its behalf.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/if_xdp.h>
#include <linux/io_uring.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif
#define GSO_UDP_L4 5
#define UDP_SEGMENT 103
#define SOL_UDP_LEVEL 17
#define FLOWS 4
#define BATCH 64

struct vnet { uint8_t flags, gso_type; uint16_t hdr_len, gso_size, csum_start, csum_offset; };
struct shared { _Atomic uint64_t received, sent, stop; };
static struct shared *shared;
static char ns[3][32];
static int packet_len = 64, with_gso, no_check;
static double mover_cpu;
static _Atomic uint64_t moved, reads, writes;

static void die(const char *what) { perror(what); for (int i = 0; i < 3; i++) { char c[80]; snprintf(c, 80, "ip netns del %s 2>/dev/null", ns[i]); if (system(c)) {} } exit(1); }
static void sh(const char *format, const char *a, const char *b) {
    char command[512];
    snprintf(command, sizeof command, format, a, b);
    if (system(command)) { fprintf(stderr, "failed: %s\n", command); errno = 0; die("sh"); }
}
static void enter(const char *name) {
    char path[64];
    snprintf(path, 64, "/run/netns/%s", name);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || setns(fd, CLONE_NEWNET)) die("setns");
    close(fd);
}
static double cpu(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

static const char *tcp_seconds;
static void sender(void) {
    if (tcp_seconds) execlp("iperf3", "iperf3", "-c", "10.0.0.2", "-t", tcp_seconds, "-f", "g", NULL);
    int fds[FLOWS], payload = packet_len - 28, per = with_gso ? 1400 / payload : 1;
    static char bytes[65536];
    for (int i = 0; i < FLOWS; i++) {
        fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7000 + i), .sin_addr.s_addr = inet_addr("10.0.0.2") };
        if (connect(fds[i], (void *)&to, sizeof to)) die("connect");
        // A checksum that is left to the device would not be right behind AF_XDP.
        int one = 1;
        if (no_check) setsockopt(fds[i], SOL_SOCKET, SO_NO_CHECK, &one, sizeof one);
        if (with_gso) { per = 64; setsockopt(fds[i], SOL_UDP_LEVEL, UDP_SEGMENT, &payload, sizeof payload); }
    }
    struct iovec vector = { bytes, (size_t)payload * per };
    struct mmsghdr all[BATCH];
    memset(all, 0, sizeof all);
    for (int i = 0; i < BATCH; i++) all[i].msg_hdr.msg_iov = &vector, all[i].msg_hdr.msg_iovlen = 1;
    for (uint64_t n = 0; !shared->stop; n++) {
        int sent = sendmmsg(fds[n % FLOWS], all, with_gso ? 4 : BATCH, 0);
        if (sent > 0) shared->sent += (uint64_t)sent * per; else usleep(50);
    }
}
static void *receive(void *port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = 8 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(7000 + (long)port) };
    if (bind(fd, (void *)&own, sizeof own)) die("bind");
    static __thread char bytes[BATCH][2048];
    struct mmsghdr all[BATCH];
    struct iovec vectors[BATCH];
    memset(all, 0, sizeof all);
    for (int i = 0; i < BATCH; i++) { vectors[i] = (struct iovec){ bytes[i], 2048 }; all[i].msg_hdr.msg_iov = &vectors[i]; all[i].msg_hdr.msg_iovlen = 1; }
    while (!shared->stop) {
        int got = recvmmsg(fd, all, BATCH, MSG_WAITFORONE, NULL);
        if (got > 0) shared->received += got;
    }
    return NULL;
}
static void receiver(void) {
    if (tcp_seconds && freopen("/dev/null", "w", stdout)) execlp("iperf3", "iperf3", "-s", "-1", NULL);
    pthread_t threads[FLOWS];
    for (long i = 0; i < FLOWS; i++) pthread_create(&threads[i], NULL, receive, (void *)i);
    pthread_join(threads[0], NULL);
}

static int tun(const char *where, const char *address, unsigned offload, int more) {
    enter(where);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK), size = sizeof(struct vnet);
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | (more >= 0 ? IFF_MULTI_QUEUE : 0) };
    strcpy(request.ifr_name, "tun0");
    if (ioctl(fd, TUNSETIFF, &request)) die("TUNSETIFF");
    ioctl(fd, TUNSETVNETHDRSZ, &size);
    if (ioctl(fd, TUNSETOFFLOAD, offload)) die("TUNSETOFFLOAD");
    if (more <= 0) { sh("ip address add %s/24 dev tun0", address, ""); sh("ip link set tun0 txqueuelen 1000 up", "", ""); }
    enter(ns[2]);
    return fd;
}
static void wait_for(int fd) { struct pollfd p = { fd, POLLIN, 0 }; poll(&p, 1, 20); usleep(50); } // Packets gather, as in the emulator's loop.

static int from[2], to[2];
static void *move_tun(void *queue) {
    int in = from[(long)queue], out = to[(long)queue];
    static __thread char buffer[1 << 17];
    while (!shared->stop) {
        ssize_t len = read(in, buffer, sizeof buffer);
        if (len < 0) { wait_for(in); continue; }
        reads++;
        struct vnet *head = (void *)buffer;
        int packets = head->gso_type == GSO_UDP_L4 ? (int)((len - sizeof *head - head->hdr_len + head->gso_size - 1) / head->gso_size) : 1;
        if (write(out, buffer, len) == len) moved += packets, writes++;
    }
    mover_cpu += cpu(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

// io_uring without a library: one ring, batches of reads and then of writes.
struct ring { int fd; unsigned *sq_head, *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask; struct io_uring_sqe *sqes; struct io_uring_cqe *cqes; };
static void ring_open(struct ring *r) {
    struct io_uring_params p = { .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };
    r->fd = syscall(SYS_io_uring_setup, 256, &p);
    if (r->fd < 0) die("io_uring_setup");
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof *r->cqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_CQ_RING);
    r->sqes = mmap(0, p.sq_entries * sizeof *r->sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
    r->sq_head = (void *)(sq + p.sq_off.head), r->sq_tail = (void *)(sq + p.sq_off.tail), r->sq_mask = (void *)(sq + p.sq_off.ring_mask), r->sq_array = (void *)(sq + p.sq_off.array);
    r->cq_head = (void *)(cq + p.cq_off.head), r->cq_tail = (void *)(cq + p.cq_off.tail), r->cq_mask = (void *)(cq + p.cq_off.ring_mask), r->cqes = (void *)(cq + p.cq_off.cqes);
}
static void ring_put(struct ring *r, int op, int fd, void *bytes, unsigned len, uint64_t data) {
    unsigned tail = *r->sq_tail, at = tail & *r->sq_mask;
    struct io_uring_sqe *sqe = &r->sqes[at];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = op, sqe->fd = fd, sqe->addr = (uint64_t)bytes, sqe->len = len, sqe->off = -1, sqe->user_data = data;
    r->sq_array[at] = at;
    __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
}
static void move_uring(void) {
    struct ring r;
    static char bytes[BATCH][2048];
    int lens[BATCH];
    ring_open(&r);
    while (!shared->stop) {
        for (int i = 0; i < BATCH; i++) ring_put(&r, IORING_OP_READ, from[0], bytes[i], 2048, i);
        syscall(SYS_io_uring_enter, r.fd, BATCH, BATCH, IORING_ENTER_GETEVENTS, NULL, 0);
        int got = 0;
        for (unsigned head = *r.cq_head; head != __atomic_load_n(r.cq_tail, __ATOMIC_ACQUIRE); __atomic_store_n(r.cq_head, ++head, __ATOMIC_RELEASE)) {
            struct io_uring_cqe *cqe = &r.cqes[head & *r.cq_mask];
            lens[cqe->user_data] = cqe->res;
        }
        for (int i = 0; i < BATCH; i++) if (lens[i] > 0) { ring_put(&r, IORING_OP_WRITE, to[0], bytes[i], lens[i], i); got++; }
        reads++;
        if (!got) { wait_for(from[0]); continue; }
        syscall(SYS_io_uring_enter, r.fd, got, got, IORING_ENTER_GETEVENTS, NULL, 0);
        for (unsigned head = *r.cq_head; head != __atomic_load_n(r.cq_tail, __ATOMIC_ACQUIRE); __atomic_store_n(r.cq_head, ++head, __ATOMIC_RELEASE))
            if (r.cqes[head & *r.cq_mask].res > 0) moved++;
        writes++;
    }
    mover_cpu = cpu(CLOCK_THREAD_CPUTIME_ID);
}

// AF_XDP on a veth in copy mode, with a program that redirects all packets to the socket.
#define FRAMES 4096
#define FRAME 2048
struct queue { uint32_t *producer, *consumer, *flags; void *ring; uint32_t mask; };
struct xsk { int fd; char *umem; struct queue fill, completion, rx, tx; };
static int bpf(int command, union bpf_attr *attr) { return syscall(SYS_bpf, command, attr, sizeof *attr); }
static struct queue map_queue(int fd, struct xdp_ring_offset *o, uint64_t page, size_t entry) {
    char *m = mmap(0, o->desc + FRAMES / 2 * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
    if (m == MAP_FAILED) die("mmap");
    return (struct queue){ (void *)(m + o->producer), (void *)(m + o->consumer), (void *)(m + o->flags), m + o->desc, FRAMES / 2 - 1 };
}
static void xsk_open(struct xsk *x, const char *name) {
    x->fd = socket(AF_XDP, SOCK_RAW, 0);
    x->umem = mmap(0, FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    struct xdp_umem_reg umem = { .addr = (uint64_t)x->umem, .len = FRAMES * FRAME, .chunk_size = FRAME };
    if (x->fd < 0 || setsockopt(x->fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem)) die("XDP_UMEM_REG");
    int size = FRAMES / 2;
    int options[] = { XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING };
    for (int i = 0; i < 4; i++) if (setsockopt(x->fd, SOL_XDP, options[i], &size, sizeof size)) die("ring");
    struct xdp_mmap_offsets o;
    socklen_t len = sizeof o;
    getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &len);
    x->fill = map_queue(x->fd, &o.fr, XDP_UMEM_PGOFF_FILL_RING, 8);
    x->completion = map_queue(x->fd, &o.cr, XDP_UMEM_PGOFF_COMPLETION_RING, 8);
    x->rx = map_queue(x->fd, &o.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
    x->tx = map_queue(x->fd, &o.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
    for (uint32_t i = 0; i < FRAMES / 2; i++) ((uint64_t *)x->fill.ring)[i] = (uint64_t)i * FRAME;
    __atomic_store_n(x->fill.producer, FRAMES / 2, __ATOMIC_RELEASE);
    struct sockaddr_xdp address = { .sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP, .sxdp_ifindex = if_nametoindex(name) };
    if (bind(x->fd, (void *)&address, sizeof address)) die("bind AF_XDP");
    union bpf_attr map = { .map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 4 };
    int table = bpf(BPF_MAP_CREATE, &map), key = 0;
    if (table < 0) die("BPF_MAP_CREATE");
    union bpf_attr entry = { .map_fd = table, .key = (uint64_t)&key, .value = (uint64_t)&x->fd };
    if (bpf(BPF_MAP_UPDATE_ELEM, &entry)) die("BPF_MAP_UPDATE_ELEM");
    struct bpf_insn program[] = {
        { .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 16 },
        { .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = table }, { 0 },
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS },
        { .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map },
        { .code = BPF_JMP | BPF_EXIT },
    };
    union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP, .insns = (uint64_t)program, .insn_cnt = 6, .license = (uint64_t)"GPL" };
    int loaded = bpf(BPF_PROG_LOAD, &load);
    if (loaded < 0) die("BPF_PROG_LOAD");
    union bpf_attr link = { .link_create = { .prog_fd = loaded, .target_ifindex = if_nametoindex(name), .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE } };
    if (bpf(BPF_LINK_CREATE, &link) < 0) die("BPF_LINK_CREATE");
}
static void move_xdp(struct xsk *in, struct xsk *out, const uint8_t *mac) {
    uint32_t outstanding = 0;
    while (!shared->stop) {
        uint32_t begin = *in->rx.consumer, end = __atomic_load_n(in->rx.producer, __ATOMIC_ACQUIRE);
        if (begin == end) { wait_for(in->fd); reads++; continue; }
        uint32_t fill = *in->fill.producer, put = *out->tx.producer;
        for (; begin != end && outstanding < FRAMES / 2; begin++) {
            struct xdp_desc *got = &((struct xdp_desc *)in->rx.ring)[begin & in->rx.mask];
            uint64_t frame = (FRAMES / 2 + (put & out->tx.mask)) * (uint64_t)FRAME;
            char *bytes = in->umem + got->addr;
            if (bytes[12] == 8 && bytes[13] == 0) {
                memcpy(out->umem + frame, bytes, got->len);
                memcpy(out->umem + frame, mac, 6);
                ((struct xdp_desc *)out->tx.ring)[put++ & out->tx.mask] = (struct xdp_desc){ frame, got->len, 0 };
                outstanding++;
                moved++;
            }
            ((uint64_t *)in->fill.ring)[fill++ & in->fill.mask] = got->addr & ~(uint64_t)(FRAME - 1);
        }
        __atomic_store_n(in->rx.consumer, begin, __ATOMIC_RELEASE);
        __atomic_store_n(in->fill.producer, fill, __ATOMIC_RELEASE);
        __atomic_store_n(out->tx.producer, put, __ATOMIC_RELEASE);
        do {
            sendto(out->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
            writes++;
            uint32_t done = __atomic_load_n(out->completion.producer, __ATOMIC_ACQUIRE);
            outstanding -= done - *out->completion.consumer;
            __atomic_store_n(out->completion.consumer, done, __ATOMIC_RELEASE);
        } while (outstanding > 32 && !shared->stop);
    }
    mover_cpu = cpu(CLOCK_THREAD_CPUTIME_ID);
}
static void veth(int n, const char *address, uint8_t *mac) {
    char text[256], name[8] = { 'm', (char)('0' + n), 0 };
    snprintf(text, 256, "ip -n %s link add %s numtxqueues 1 numrxqueues 1 type veth peer name eth0 netns %s numtxqueues 1 numrxqueues 1", ns[2], name, ns[n]);
    sh("%s", text, "");
    snprintf(text, 256, "ip -n %s link set %s promisc on up && ip -n %s address add %s/24 dev eth0 && ip -n %s link set eth0 up", ns[2], name, ns[n], address, ns[n]);
    sh("%s", text, "");
    snprintf(text, 256, "ip netns exec %s ethtool -K eth0 gro on tx off >/dev/null 2>&1; true", ns[n]);
    sh("%s", text, "");
    snprintf(text, 256, "ip -n %s link set eth0 address 02:00:00:00:00:0%d", ns[n], n + 1);
    sh("%s", text, "");
    snprintf(text, 256, "ip -n %s neigh add 10.0.0.%d lladdr 02:00:00:00:00:0%d dev eth0", ns[n], n ? 1 : 2, n ? 1 : 2);
    sh("%s", text, "");
    memcpy(mac, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)(n + 1) }, 6);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "tun";
    int seconds = argc > 2 ? atoi(argv[2]) : 4;
    packet_len = argc > 3 ? atoi(argv[3]) : 64;
    with_gso = argc > 4 && !strcmp(argv[4], "gso");
    if (argc > 4 && !strcmp(argv[4], "tcp")) tcp_seconds = argv[2], seconds += 2;
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) { snprintf(ns[i], 32, "devices-%d-%d", getpid(), i); sh("ip netns add %s && ip -n %s link set lo up", ns[i], ns[i]); }
    enter(ns[2]);
    int queues = !strcmp(mode, "tun2") ? 2 : 1, is_xdp = no_check = !strcmp(mode, "xdp");
    struct xsk sockets[2];
    uint8_t macs[2][6];
    if (is_xdp) {
        for (int i = 0; i < 2; i++) veth(i, i ? "10.0.0.2" : "10.0.0.1", macs[i]);
        struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
        setrlimit(RLIMIT_MEMLOCK, &limit);
        xsk_open(&sockets[0], "m0");
        xsk_open(&sockets[1], "m1");
    } else {
        unsigned offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | (!strcmp(mode, "uso") ? TUN_F_USO4 | TUN_F_USO6 : 0);
        for (int i = 0; i < queues; i++) {
            from[i] = tun(ns[0], "10.0.0.1", offload, queues > 1 ? i : -1);
            to[i] = tun(ns[1], "10.0.0.2", offload, queues > 1 ? i : -1);
        }
    }
    if (tcp_seconds) from[1] = to[0], to[1] = from[0], queues = 2;
    pid_t children[2];
    for (int i = 0; i < 2; i++) if (!(children[i] = fork())) { enter(ns[i ? 0 : 1]); if (i) { usleep(400000); sender(); } else receiver(); _exit(0); }
    pthread_t threads[2];
    pid_t timer = fork();
    if (!timer) { sleep(seconds); shared->stop = 1; _exit(0); }
    double begin = cpu(CLOCK_MONOTONIC), before = cpu(CLOCK_PROCESS_CPUTIME_ID);
    if (is_xdp) move_xdp(&sockets[0], &sockets[1], macs[1]);
    else if (!strcmp(mode, "uring")) move_uring();
    else {
        for (long i = 0; i < queues; i++) pthread_create(&threads[i], NULL, move_tun, (void *)i);
        for (int i = 0; i < queues; i++) pthread_join(threads[i], NULL);
    }
    double took = cpu(CLOCK_MONOTONIC) - begin - 0.2, used = cpu(CLOCK_PROCESS_CPUTIME_ID) - before;
    for (int i = 0; i < 2; i++) kill(children[i], SIGKILL), waitpid(children[i], NULL, 0);
    waitpid(timer, NULL, 0);
    struct rusage all;
    getrusage(RUSAGE_CHILDREN, &all);
    double others = all.ru_utime.tv_sec + all.ru_stime.tv_sec + (all.ru_utime.tv_usec + all.ru_stime.tv_usec) * 1e-6;
    double all_moved = moved ? (double)moved : 1;
    printf("%-6s %4d B%s: %7.0f kpackets/s received, %7.0f moved; mover %6.0f ns a packet, ends %6.0f ns; %.1f packets a call\n", mode, packet_len, with_gso ? " gso" : "",
           shared->received / took / 1e3, moved / took / 1e3, used / all_moved * 1e9, others / all_moved * 1e9, all_moved / (double)(reads ? reads : 1));
    enter(ns[2]);
    for (int i = 0; i < 3; i++) sh("ip netns del %s%s", ns[i], "");
    return 0;
}
