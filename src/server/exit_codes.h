// Exit codes with which a server ends its process itself, as `nibble --help` documents them.
#pragma once

namespace nibble::server {

inline constexpr int kInterruptedCode{
    130};  // a signal came while the model loaded, or requests were not answered in full
inline constexpr int kEngineLostCode{5};  // no step can be run any more: the process has to be started again

}  // namespace nibble::server
