/* Sends the packets of a capture through a channel and back: channel CAPTURE [v2] [large] [lossy].
 *
 * Prints the counts. Ends with 1 if a packet that was delivered differs from the one that was sent. */
#include <bentpipe_rohc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t ip[70000], rohc[70000], restored[70000], feedback[5000];

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%d: %s\n", __LINE__, #condition);                                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Arguments that no caller should pass, and input that no compressor makes. */
static void misuse(const bentpipe_rohc_comp_config *config, const bentpipe_rohc_decomp_config *other)
{
    bentpipe_rohc_comp_config wrong = *config;
    bentpipe_rohc_info info;
    size_t len = 7;
    wrong.channel.max_cid = 16384;
    CHECK(bentpipe_rohc_comp_new(&wrong) == NULL);
    CHECK(bentpipe_rohc_comp_new(NULL) == NULL && bentpipe_rohc_decomp_new(NULL) == NULL);
    bentpipe_rohc_comp_free(NULL);
    bentpipe_rohc_decomp_free(NULL);
    CHECK(bentpipe_rohc_compress(NULL, 0, ip, 20, rohc, sizeof rohc, &len) == BENTPIPE_ROHC_INVALID);

    bentpipe_rohc_comp *comp = bentpipe_rohc_comp_new(config);
    bentpipe_rohc_decomp *decomp = bentpipe_rohc_decomp_new(other);
    CHECK(comp != NULL && decomp != NULL);
    CHECK(bentpipe_rohc_comp_last(comp, &info) == BENTPIPE_ROHC_INVALID);
    CHECK(bentpipe_rohc_compress(comp, 0, NULL, 0, rohc, sizeof rohc, &len) == BENTPIPE_ROHC_INVALID && len == 0);
    CHECK(bentpipe_rohc_decompress(decomp, 0, NULL, 0, restored, sizeof restored, NULL) != BENTPIPE_ROHC_OK);
    bentpipe_rohc_comp_feedback(comp, NULL, 3);
    srand(1);
    for (int n = 0; n < 20000; n++) {
        size_t size = (size_t) (rand() % 60);
        for (size_t at = 0; at < size; at++)
            ip[at] = (uint8_t) rand();
        bentpipe_rohc_decompress(decomp, 0, ip, size, restored, sizeof restored, &len);
        bentpipe_rohc_comp_feedback(comp, ip, size);
        if (bentpipe_rohc_compress(comp, 0, ip, size, rohc, 8, &len) == BENTPIPE_ROHC_TOO_SMALL)
            CHECK(len > 8);
        bentpipe_rohc_decomp_take_feedback(decomp, feedback, sizeof feedback, &len);
    }
    bentpipe_rohc_comp_free(comp);
    bentpipe_rohc_decomp_free(decomp);
}

int main(int argc, char **argv)
{
    bool lossy = false;
    bentpipe_rohc_comp_config config;
    bentpipe_rohc_decomp_config other;
    bentpipe_rohc_comp_defaults(&config);
    bentpipe_rohc_decomp_defaults(&other);
    for (int n = 2; n < argc; n++) {
        config.channel.version_2 |= strcmp(argv[n], "v2") == 0;
        if (strcmp(argv[n], "large") == 0) {
            config.channel.large_cids = true;
            config.channel.max_cid = 500;
        }
        lossy |= strcmp(argv[n], "lossy") == 0;
    }
    other.channel = config.channel;
    other.mode = BENTPIPE_ROHC_O_MODE;
    misuse(&config, &other);

    FILE *capture = argc > 1 ? fopen(argv[1], "rb") : NULL;
    uint32_t head[6], record[4];
    bentpipe_rohc_comp *comp = bentpipe_rohc_comp_new(&config);
    bentpipe_rohc_decomp *decomp = bentpipe_rohc_decomp_new(&other);
    CHECK(capture != NULL && comp != NULL && decomp != NULL && fread(head, 4, 6, capture) == 6);
    unsigned long number = 0, lost = 0, wrong = 0;
    while (fread(record, 4, 4, capture) == 4 && record[2] <= sizeof ip && fread(ip, 1, record[2], capture) == record[2]) {
        uint64_t now_ns = record[0] * 1000000000ull + record[1] * 1000ull;
        size_t rohc_len, len;
        CHECK(bentpipe_rohc_compress(comp, now_ns, ip, record[2], rohc, sizeof rohc, &rohc_len) == BENTPIPE_ROHC_OK);
        if (lossy && number++ % 10 == 9) {
            lost++;
            continue;
        }
        bentpipe_rohc_status status =
            bentpipe_rohc_decompress(decomp, now_ns, rohc, rohc_len, restored, sizeof restored, &len);
        if (status == BENTPIPE_ROHC_OK)
            wrong += len != record[2] || memcmp(ip, restored, len) != 0;
        if (bentpipe_rohc_decomp_take_feedback(decomp, feedback, sizeof feedback, &len) == BENTPIPE_ROHC_OK)
            bentpipe_rohc_comp_feedback(comp, feedback, len);
    }
    bentpipe_rohc_info info;
    bentpipe_rohc_comp_stats sent;
    bentpipe_rohc_decomp_stats got;
    CHECK(bentpipe_rohc_comp_last(comp, &info) == BENTPIPE_ROHC_OK);
    bentpipe_rohc_comp_get_stats(comp, &sent);
    bentpipe_rohc_decomp_get_stats(decomp, &got);
    printf("%s packets %lu lost %lu delivered %lu wrong %lu headers %lu %lu profile 0x%04x type %s\n",
           bentpipe_rohc_version(), (unsigned long) sent.packets, lost, (unsigned long) got.delivered, wrong,
           (unsigned long) sent.header_in, (unsigned long) sent.header_out, info.profile, info.type);
    bentpipe_rohc_comp_free(comp);
    bentpipe_rohc_decomp_free(decomp);
    return wrong != 0;
}
