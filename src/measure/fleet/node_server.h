// A node of a fleet. It serves requests about candidates with workers of its own, as the tuner does
// on one machine. The tuner needs to watch the node only, and not the candidates.
#pragma once

#include "measure/messages/requests.h"
#include "measure/process/channel.h"

namespace heddle::measuring {

/// Serves the requests of a node (messages/fleet.h) until the channel ends. Its answer to the hello
/// says what machine this is, and why it cannot measure for the target, if that is so. An invalid
/// request throws an Error.
void serve_node(Channel& channel, const Hello& hello);

}  // namespace heddle::measuring
