/* passthrough: forwards every line to the other side, byte for byte.
 *
 * The smallest proxy there is, and the yardstick of what a sandboxed hop costs. */
#include "channel.h"

static void channel_on_line(char side, channel_span json) {
    (void)side, (void)json;
    channel_forward();
}
