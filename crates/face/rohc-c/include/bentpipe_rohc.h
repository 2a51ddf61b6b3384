/* Robust Header Compression (ROHC) for C.
 *
 * Compressor and decompressor of RFC 3095, 3843, 4019, 6846 (version 1) and RFC 5225 (version 2), without clock and I/O: octets and
 * times go in, octets come out.
 *
 * No function blocks, prints, or ends the program. Pointers to octets may be NULL if their length is 0. An object belongs to one
 * thread at a time; different objects are independent.
 *
 *     cc program.c $(pkg-config --cflags --libs bentpipe-rohc)
 */
#ifndef BENTPIPE_ROHC_H
#define BENTPIPE_ROHC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a function. */
typedef enum {
    /* Done. */
    BENTPIPE_ROHC_OK = 0,
    /* Done, and the ROHC packet had no IP packet in it: feedback only, or a segment that is not the last. */
    BENTPIPE_ROHC_NO_PACKET = 1,
    /* The output buffer is too small; the needed length is in *out_len. The packet counts as lost on the channel. */
    BENTPIPE_ROHC_TOO_SMALL = 2,
    /* The context is unknown: no IR packet has arrived yet. */
    BENTPIPE_ROHC_NO_CONTEXT = 3,
    /* The header's CRC or the transport checksum does not match: octets were damaged or packets lost. */
    BENTPIPE_ROHC_BAD_CRC = 4,
    /* The context is damaged, or waits for a confirmation: nothing is delivered until a refresh. */
    BENTPIPE_ROHC_WAITING = 5,
    /* The packet is truncated, malformed, or not of this channel. */
    BENTPIPE_ROHC_MALFORMED = 6,
    /* An argument is invalid, such as a NULL pointer or an empty packet. */
    BENTPIPE_ROHC_INVALID = 7
} bentpipe_rohc_status;

/* Modes of RFC 3095; RFC 5225 has the first two. */
typedef enum {
    BENTPIPE_ROHC_U_MODE = 1,
    BENTPIPE_ROHC_O_MODE = 2,
    BENTPIPE_ROHC_R_MODE = 3
} bentpipe_rohc_mode;

/* Which UDP packets are RTP, which no field says. */
typedef enum {
    /* Packets that look like it: unprivileged ports, an even destination port, version 2, a payload type of RFC 3551. */
    BENTPIPE_ROHC_RTP_LIKELY = 0,
    /* None. */
    BENTPIPE_ROHC_RTP_NEVER = 1,
    /* Those with one of the destination ports `rtp_ports`. */
    BENTPIPE_ROHC_RTP_PORTS = 2
} bentpipe_rohc_rtp;

/* What both ends of a channel agree on (RFC 3095 5.1.1). */
typedef struct {
    /* Large CIDs. Small ones take no octet for CID 0. */
    bool large_cids;
    /* MAX_CID: at most 15, or 16383 with large CIDs. */
    uint16_t max_cid;
    /* Profiles of version 2 (RFC 5225) in place of version 1. */
    bool version_2;
    /* MRRU in octets; 0: no segmentation. */
    uint32_t mrru;
} bentpipe_rohc_channel;

/* Configuration of a compressor. Set all with bentpipe_rohc_comp_defaults(), then change what is wanted. */
typedef struct {
    bentpipe_rohc_channel channel;
    bentpipe_rohc_rtp rtp;
    /* Destination ports of RTP, and their number; copied by bentpipe_rohc_comp_new(). */
    const uint16_t *rtp_ports;
    size_t rtp_ports_count;
    /* Number of packets that carry a change, 1 to 16: the optimistic approach. */
    uint8_t repeats;
    /* Refreshes in U-mode, in packets: of the whole context, and of its dynamic part. 0: none. */
    uint32_t ir_packets, fo_packets;
    /* Refreshes in U-mode, in nanoseconds. 0: none. */
    uint64_t ir_interval_ns, fo_interval_ns;
    /* Maximum number of packets between two with CRC-7 in U-mode, up to 32. 0: RFC 3095 to the letter. */
    uint8_t confirm;
    /* Reordering that profiles of version 2 allow for: 0 none, 1 a quarter of the interval, 2 half, 3 three quarters. */
    uint8_t reorder_ratio;
    /* The decompressor is librohc's: avoids what it refuses. */
    bool for_librohc;
} bentpipe_rohc_comp_config;

/* Configuration of a decompressor. Set all with bentpipe_rohc_decomp_defaults(), then change what is wanted. */
typedef struct {
    bentpipe_rohc_channel channel;
    /* Mode that contexts are brought to. In U-mode there is no feedback. */
    bentpipe_rohc_mode mode;
    /* Verify transport checksums: packets with a wrong one are repaired or refused. */
    bool verify;
    /* Packets held back after losses; 0: none, as RFC 3095 has it. */
    uint8_t caution;
    /* The compressor confirms, as this library's does unless `confirm` is 0. Never set it for another one. */
    bool peer_confirms;
} bentpipe_rohc_decomp_config;

/* About the last packet. */
typedef struct {
    uint16_t cid;
    /* Number of the profile: 0x0001 is RTP, 0x0101 RTP of version 2. */
    uint16_t profile;
    /* Name of the type of the ROHC packet, such as "UO-0"; valid until the object is used again. */
    const char *type;
    /* Octets of the headers before and after. */
    size_t header_in, header_out;
} bentpipe_rohc_info;

/* Counts of a compressor. */
typedef struct {
    uint64_t packets, bytes_in, bytes_out, header_in, header_out, irs;
} bentpipe_rohc_comp_stats;

/* Counts of a decompressor. */
typedef struct {
    uint64_t received, delivered, refused, crc_failures, checksum_failures;
} bentpipe_rohc_decomp_stats;

typedef struct bentpipe_rohc_comp bentpipe_rohc_comp;
typedef struct bentpipe_rohc_decomp bentpipe_rohc_decomp;

/* Version of the library, such as "0.1.0". */
const char *bentpipe_rohc_version(void);

/* Words for a status. */
const char *bentpipe_rohc_status_text(bentpipe_rohc_status status);

/* Small CIDs 0 to 15, version 1, U-mode, RTP by its looks, refreshes after 1700 and 700 packets. */
void bentpipe_rohc_comp_defaults(bentpipe_rohc_comp_config *config);
void bentpipe_rohc_decomp_defaults(bentpipe_rohc_decomp_config *config);

/* Creates a compressor. NULL if the configuration is NULL or has an impossible value. */
bentpipe_rohc_comp *bentpipe_rohc_comp_new(const bentpipe_rohc_comp_config *config);
/* Frees it; NULL is ignored. */
void bentpipe_rohc_comp_free(bentpipe_rohc_comp *comp);

/* Compresses an IP packet into `out`, and sets *out_len. `now_ns` is a time from any fixed origin; where no refresh depends on time
 * 0 always will do. An output as long as the packet and 64 octets is long enough but for packets with long lists. */
bentpipe_rohc_status bentpipe_rohc_compress(bentpipe_rohc_comp *comp, uint64_t now_ns, const uint8_t *ip, size_t ip_len,
                                            uint8_t *out, size_t out_max, size_t *out_len);

/* Processes feedback elements of the decompressor at the other end. What is malformed is ignored. */
void bentpipe_rohc_comp_feedback(bentpipe_rohc_comp *comp, const uint8_t *elements, size_t len);

/* Queues feedback elements of the decompressor at this end in front of the next packet. */
void bentpipe_rohc_comp_piggyback(bentpipe_rohc_comp *comp, const uint8_t *elements, size_t len);

/* Starts every context again, as the decompressor was replaced. */
void bentpipe_rohc_comp_reinitialize(bentpipe_rohc_comp *comp);

/* About the last packet that was compressed. BENTPIPE_ROHC_INVALID before the first one. */
bentpipe_rohc_status bentpipe_rohc_comp_last(const bentpipe_rohc_comp *comp, bentpipe_rohc_info *info);
void bentpipe_rohc_comp_get_stats(const bentpipe_rohc_comp *comp, bentpipe_rohc_comp_stats *stats);

/* Creates a decompressor. NULL if the configuration is NULL or has an impossible value. */
bentpipe_rohc_decomp *bentpipe_rohc_decomp_new(const bentpipe_rohc_decomp_config *config);
/* Frees it; NULL is ignored. */
void bentpipe_rohc_decomp_free(bentpipe_rohc_decomp *decomp);

/* Decompresses a ROHC packet into `out`, and sets *out_len; 0 if there is no IP packet. Look for feedback after every packet, also after
 * one that was refused. */
bentpipe_rohc_status bentpipe_rohc_decompress(bentpipe_rohc_decomp *decomp, uint64_t now_ns, const uint8_t *rohc,
                                              size_t rohc_len, uint8_t *out, size_t out_max, size_t *out_len);

/* Takes the feedback to send to the compressor at the other end. BENTPIPE_ROHC_NO_PACKET if there is none. If the buffer is too small it
 * stays. */
bentpipe_rohc_status bentpipe_rohc_decomp_take_feedback(bentpipe_rohc_decomp *decomp, uint8_t *out, size_t out_max,
                                                        size_t *out_len);

/* Takes the feedback that arrived piggybacked, for the compressor at this end. */
bentpipe_rohc_status bentpipe_rohc_decomp_take_received(bentpipe_rohc_decomp *decomp, uint8_t *out, size_t out_max,
                                                        size_t *out_len);

/* About the last packet that was restored. BENTPIPE_ROHC_INVALID before the first one. */
bentpipe_rohc_status bentpipe_rohc_decomp_last(const bentpipe_rohc_decomp *decomp, bentpipe_rohc_info *info);
void bentpipe_rohc_decomp_get_stats(const bentpipe_rohc_decomp *decomp, bentpipe_rohc_decomp_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
