// Exit codes of a server that ends its own process; `nibble --help` documents them.
#pragma once

namespace nibble::server {

inline constexpr int kInterruptedCode{130};  // a signal while the model was loading, or requests were cut off
inline constexpr int kEngineLostCode{5};     // the engine can't run any more steps: restart the process

}  // namespace nibble::server
