#include "backend/cuda/ranks/connection.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/ranks/cards.h"
#include "core/check.h"
#include "core/error.h"
#include "core/log.h"

namespace nibble::cuda {

Connection connection_of(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::string_view source, std::vector<int> devices) {
  Connection connection;
  if (own.num_ranks() == 1) return connection;
  connection.links = options.links;
  connection.shares = shares_of(config, own, source);
  NIBBLE_CHECK(!own.node_rank || connection.links, "a node without links");
  const std::string no_access = own.asks_for_nccl() ? "" : why_not_connected(devices);
  if (!own.asks_for_nccl() && no_access.empty()) return connection;
  try {
    connection.nccl = Nccl::load(own.nccl, own.interface);
  } catch (const InputError& error) {
    if (no_access.empty()) throw;
    throw InputError("--tensor-parallel-size {}: {}, and NCCL, which does not need that, is missing: {}",
                     own.num_ranks(), no_access, error.what());
  }
  std::sort(devices.begin(), devices.end());
  if (std::adjacent_find(devices.begin(), devices.end()) != devices.end())
    throw InputError("--gpus {}: NCCL accepts each GPU only once", fmt::join(own.gpus, ","));
  log::info("{}NCCL {} sums over ranks", no_access.empty() ? "" : no_access + ": ",
            connection.nccl->version());
  return connection;
}

RankTraits rank_traits(const CudaOptions& own) {
  const std::shared_ptr<const Nccl> nccl = Nccl::load(own.nccl, own.interface);
  if (const std::string missing = why_no_device(); !missing.empty())
    throw InputError("--backend cuda: {}", missing);
  use_device(devices_of(own).front());
  const Target target = target_of(device_caps(), own);
  const int prompts = own.prompt_activations ? static_cast<int>(*own.prompt_activations) + 1 : 0;
  return {fmt::format("cuda {}, {} KB, {} SMs, prompts {}, graphs {}", name(target.family),
                      kilobytes(target.budget), target.num_multiprocessors, prompts,
                      own.has_graphs ? "on" : "off"),
          nccl->version()};
}

GroupId new_group(const CudaOptions& own) { return Nccl::load(own.nccl, own.interface)->new_group(); }

}  // namespace nibble::cuda
