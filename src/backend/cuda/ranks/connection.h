// How the ranks of a model are connected: because they can write into each other's memory, or by NCCL.
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
  std::shared_ptr<const Nccl> nccl{};  // null: the ranks write into each other's memory, or there is one
  std::vector<Share> shares{};         // of all ranks
  std::shared_ptr<RankLinks> links{};  // of ranks that are processes; null: all are this one's
};

// That of the ranks on these GPUs. Throws InputError where NCCL is needed and cannot be had.
Connection connection_of(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::string_view source, std::vector<int> devices);

// The traits that ranks which are processes must have alike: the chip and the options of the kernels, which decide bits; and the NCCL that connects
// them. Throws InputError where this machine cannot be one of them.
struct RankTraits {
  std::string kernels, nccl;
};
RankTraits rank_traits(const CudaOptions& own);
// By what they find each other. The first one's process makes it.
GroupId new_group(const CudaOptions& own);

}  // namespace nibble::cuda
