// The choices about a network that tuning tried on the whole of it, as text and as JSON.
#pragma once

#include <string>

#include "heddle/network/network.h"
#include "heddle/support/json.h"

namespace heddle::cli {

/// A table with a row for each choice, and how all that was taken raced; empty where nothing could
/// be tried. Choices that were not tried for lack of time are counted only.
std::string choices_text(const PassChoice& choice);
Json choices_json(const PassChoice& choice);

}  // namespace heddle::cli
