/* What the data plane `dpdk` needs of DPDK, whose own functions are mostly inline: the start of its
 * environment, ports, and frames. Frames are buffers of one pool that are never given back: each has one
 * reference of ours and, while a driver has it, another one. */

#include <stdio.h>
#include <string.h>

#include <rte_version.h>

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define FRAMES 512
#define ROOM 2048
/* Bursts in a row of which the driver took nothing, until that is trouble. */
#define TRIES 1000

struct fairbell_port {
    uint16_t port;
    char name[64];
    struct rte_mempool *pool;
    struct rte_mbuf *all[FRAMES];
    struct rte_mbuf *out[FRAMES];
    uint32_t next;
    uint32_t waiting;
    uint64_t errors;
};

/* Starts the environment; 0, or an error's number. */
int fairbell_dpdk_start(int count, char **arguments)
{
    return rte_eal_init(count, arguments) < 0 ? (rte_errno ? rte_errno : EINVAL) : 0;
}

static void release(struct fairbell_port *of)
{
    for (uint32_t at = 0; at < FRAMES; at++)
        if (of->all[at])
            rte_pktmbuf_free(of->all[at]);
    rte_mempool_free(of->pool);
    free(of);
}

/* Takes a virtual device off again. */
static void remove_device(uint16_t port)
{
    struct rte_eth_dev_info info;
    int known = rte_eth_dev_info_get(port, &info) == 0;
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
    if (known && info.device)
        rte_dev_remove(info.device);
}

/* Makes a virtual device with one queue each way; 0, or an error's number. */
int fairbell_dpdk_open(const char *name, const char *arguments, struct fairbell_port **opened)
{
    struct rte_eth_conf conf;
    struct fairbell_port *of = calloc(1, sizeof(*of));
    int failed;

    if (!of)
        return ENOMEM;
    snprintf(of->name, sizeof(of->name), "%s", name);
    /* The driver's rings have frames of 2,048 bytes, to which a buffer must have more room than its headroom. */
    of->pool = rte_pktmbuf_pool_create(name, 2 * FRAMES, 0, 0, ROOM + 2 * RTE_PKTMBUF_HEADROOM,
                                       SOCKET_ID_ANY);
    if (!of->pool) {
        failed = rte_errno ? rte_errno : ENOMEM;
        free(of);
        return failed;
    }
    for (uint32_t at = 0; at < FRAMES; at++) {
        of->all[at] = rte_pktmbuf_alloc(of->pool);
        if (!of->all[at]) {
            release(of);
            return ENOMEM;
        }
    }
    failed = rte_eal_hotplug_add("vdev", name, arguments);
    if (failed) {
        release(of);
        return -failed;
    }
    failed = rte_eth_dev_get_port_by_name(name, &of->port);
    if (failed) {
        release(of);
        return -failed;
    }
    memset(&conf, 0, sizeof(conf));
    failed = rte_eth_dev_configure(of->port, 1, 1, &conf);
    if (!failed)
        failed = rte_eth_rx_queue_setup(of->port, 0, FRAMES, SOCKET_ID_ANY, NULL, of->pool);
    if (!failed)
        failed = rte_eth_tx_queue_setup(of->port, 0, FRAMES, SOCKET_ID_ANY, NULL);
    if (!failed)
        failed = rte_eth_dev_start(of->port);
    if (failed) {
        remove_device(of->port);
        release(of);
        return -failed;
    }
    *opened = of;
    return 0;
}

void fairbell_dpdk_close(struct fairbell_port *of)
{
    remove_device(of->port);
    release(of);
}

/* 2,048 bytes for the next frame; NULL while all are on their way. */
uint8_t *fairbell_dpdk_frame(struct fairbell_port *of)
{
    struct rte_mbuf *frame = of->all[of->next % FRAMES];

    if (of->waiting == FRAMES || rte_mbuf_refcnt_read(frame) != 1)
        return NULL;
    return rte_pktmbuf_mtod(frame, uint8_t *);
}

/* Has the next frame go, of so many bytes. */
void fairbell_dpdk_push(struct fairbell_port *of, uint16_t bytes)
{
    struct rte_mbuf *frame = of->all[of->next++ % FRAMES];

    frame->data_len = bytes;
    frame->pkt_len = bytes;
    rte_mbuf_refcnt_set(frame, 2);
    of->out[of->waiting++] = frame;
}

/* Bytes of a frame that was pushed before the last send and is not written anew yet; by its place in that. */
const uint8_t *fairbell_dpdk_pushed(struct fairbell_port *of, uint32_t at)
{
    return at < FRAMES ? rte_pktmbuf_mtod(of->out[at], const uint8_t *) : NULL;
}

/* Sends what was pushed; how many went, from the first. */
uint32_t fairbell_dpdk_send(struct fairbell_port *of, uint64_t *calls)
{
    struct rte_eth_stats stats;
    uint32_t sent = 0, tries = 0, waiting = of->waiting;

    while (sent < waiting && tries < TRIES) {
        uint16_t more = rte_eth_tx_burst(of->port, 0, of->out + sent, waiting - sent);
        sent += more;
        tries = more ? 0 : tries + 1;
        ++*calls;
    }
    for (uint32_t at = sent; at < waiting; at++)
        rte_mbuf_refcnt_set(of->out[at], 1);
    of->waiting = 0;
    /* A driver over a socket has taken all also where the socket refused: that is among its errors. */
    if (rte_eth_stats_get(of->port, &stats) == 0 && stats.oerrors != of->errors) {
        of->errors = stats.oerrors;
        return 0;
    }
    return sent;
}
