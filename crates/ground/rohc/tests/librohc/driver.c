/* Decompresses a capture of ROHC packets with librohc: driver IN.rohc.pcap OUT.pcap
 *
 * For the tests of librohc_peer.rs, which run it if BENTPIPE_LIBROHC names it. A third argument, "v2", selects the profiles of
 * version 2 that librohc has: UDP, ESP and IP. With librohc installed:
 *     cc -o driver driver.c -lrohc
 * Small CIDs, U-mode. OUT.pcap has one record for each packet that librohc delivered. */
#include <rohc/rohc.h>
#include <rohc/rohc_buf.h>
#include <rohc/rohc_decomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint8_t in[70000], out[70000], scratch[2][5000];

static struct rohc_buf buffer(uint8_t *data, size_t max_len, size_t len)
{
    struct rohc_buf buf = { { 0, 0 }, data, max_len, 0, len };
    return buf;
}

int main(int argc, char **argv)
{
    const int v2 = argc == 4 && strcmp(argv[3], "v2") == 0;
    FILE *from = argc == 3 || v2 ? fopen(argv[1], "rb") : NULL;
    FILE *to = from ? fopen(argv[2], "wb") : NULL;
    struct rohc_decomp *decomp = rohc_decomp_new2(ROHC_SMALL_CID, ROHC_SMALL_CID_MAX, ROHC_U_MODE);
    uint32_t head[6], record[4];
    if (to == NULL || decomp == NULL || fread(head, 4, 6, from) != 6)
        return 2;
    if (v2 ? !rohc_decomp_enable_profiles(decomp, ROHC_PROFILE_UNCOMPRESSED, ROHCv2_PROFILE_IP_UDP, ROHCv2_PROFILE_IP_ESP,
                                          ROHCv2_PROFILE_IP, ROHC_PROFILE_TCP, -1)
           : !rohc_decomp_enable_profiles(decomp, ROHC_PROFILE_UNCOMPRESSED, ROHC_PROFILE_RTP, ROHC_PROFILE_UDP,
                                          ROHC_PROFILE_ESP, ROHC_PROFILE_IP, ROHC_PROFILE_TCP, -1))
        return 2;
    head[5] = 101; /* LINKTYPE_RAW */
    fwrite(head, 4, 6, to);
    while (fread(record, 4, 4, from) == 4 && record[2] <= sizeof in && fread(in, 1, record[2], from) == record[2]) {
        struct rohc_buf rohc = buffer(in, sizeof in, record[2]), ip = buffer(out, sizeof out, 0);
        struct rohc_buf received = buffer(scratch[0], sizeof scratch[0], 0);
        struct rohc_buf feedback = buffer(scratch[1], sizeof scratch[1], 0);
        rohc.time.sec = record[0];
        rohc.time.nsec = 1000 * (uint64_t) record[1];
        if (rohc_decompress3(decomp, rohc, &ip, &received, &feedback) != ROHC_STATUS_OK || ip.len == 0)
            continue;
        record[2] = record[3] = (uint32_t) ip.len;
        fwrite(record, 4, 4, to);
        fwrite(ip.data + ip.offset, 1, ip.len, to);
    }
    rohc_decomp_free(decomp);
    return fclose(to) == 0 ? 0 : 2;
}
