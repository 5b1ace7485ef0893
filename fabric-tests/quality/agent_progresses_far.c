/* WEFT_PROGRESS_AGENT: see agent.h; over the emulated fabric.
 *
 * Covers: 2.9, 12.7
 * Ranks: 2
 * Env: WEFT_PROGRESS_AGENT=yes
 * Env: WEFT_TRANSPORT=softroce
 */
#include "agent.h"
