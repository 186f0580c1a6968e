// How the server was set up: which backend runs the model, with which kernels, and what its memory is for. Written by who starts the
// server, shown at /status.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nibble::server {

struct SetupFacts {
  struct Kernel {
    std::string operation, weights, activations, rows, name, reason;
  };
  struct Memory {
    std::string what;
    size_t bytes;
  };
  std::string backend;  // "cpu"
  std::string device;   // what it runs on, in a line
  std::vector<Kernel> kernels;
  std::vector<Memory> memory;  // the plan's parts, of several GPUs those of the fullest
  size_t memory_budget{0};     // these parts, and what was left when the server started where least was
};

}  // namespace nibble::server
