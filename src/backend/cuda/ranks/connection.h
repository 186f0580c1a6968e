// How the ranks of a model are connected: by direct writes to each other's memory, or by NCCL.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/ranks/nccl.h"
#include "model/shares/share.h"

namespace nibble::cuda {

struct Connection {
  std::shared_ptr<const Nccl> nccl{};  // null: direct writes, or a single rank
  std::vector<Share> shares{};         // one entry per rank
  std::shared_ptr<RankLinks> links{};  // set if each rank is a process; null: all ranks are in this process
};

// Throws InputError if NCCL is needed and unavailable.
Connection connection_of(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::string_view source, std::vector<int> devices);

// Properties that must be equal for ranks in different processes: the chip and the kernel options, which
// decide the bits, and the NCCL version. rank_traits() throws InputError if this machine cannot be a rank.
struct RankTraits {
  std::string kernels, nccl;
};
RankTraits rank_traits(const CudaOptions& own);
// The id by which ranks find each other, made by the first rank's process.
GroupId new_group(const CudaOptions& own);

}  // namespace nibble::cuda
