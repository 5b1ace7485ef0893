/* WEFT_PROGRESS_AGENT: see agent.h; by messages and memory inside a node.
 *
 * Covers: 2.9, 12.7
 * Ranks: 2
 * Env: WEFT_PROGRESS_AGENT=yes
 */
#include "agent.h"
