/* As long_blocks, with ranks that keep their cores while they wait though there are more of them than cores: where each rank has a core of
 * its own, other ways may be open.
 *
 * Covers: 6.1, 6.7, 6.8, 6.9.1, 6.9.6, 6.10.1
 * Ranks: 3 4
 * Timeout: 180
 * Env: WEFT_OVERSUBSCRIBED=no
 */
#include "long_blocks.c"
