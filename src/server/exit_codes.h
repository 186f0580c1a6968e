// Exit codes of a server that ends its own process; `nibble --help` documents them.
#pragma once

namespace nibble::server {

// A signal arrived while the model was loading, or some requests were not answered in full.
inline constexpr int kInterruptedCode{130};
// The engine can't run any more steps: the process must be restarted.
inline constexpr int kEngineLostCode{5};

}  // namespace nibble::server
