#pragma once

namespace ashlar::apps {

// As many open files as the system lets us have: each connection is one.
void RaiseFileLimit();

}  // namespace ashlar::apps
