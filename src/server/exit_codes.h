// Exit codes of a server that ends its own process; `nibble --help` documents them.
#pragma once

namespace nibble::server {

// A signal ended the process while the model was loading or before all requests were answered.
inline constexpr int kInterruptedCode{130};
inline constexpr int kEngineLostCode{5};  // the engine can't run any more steps: restart the process

}  // namespace nibble::server
