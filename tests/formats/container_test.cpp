#include "formats/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "formats/container_error.h"
#include "formats/open_container.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/formats/safetensors_bytes.h"

namespace nibble {
namespace {

using Fault = ContainerFault;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Gives each test its own folder, and removes the folder afterwards.
class ContainerTest : public testing::Test {
 protected:
  ContainerTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(test::build_path("scratch")) / (std::string("container_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ContainerTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // Writes a file with one U8 tensor.
  fs::path write_tensor(const std::string& file, std::string_view tensor, std::string_view data) {
    return write(
        file, safetensors_bytes(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})",
                                            tensor, data.size(), data.size()),
                                data));
  }
  fs::path write_index(std::string_view weight_map) {
    return write("model.safetensors.index.json",
                 fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", weight_map));
  }

  fs::path folder_;
};

std::optional<Fault> container_fault(const std::function<Container()>& open,
                                     std::string_view part_of_message) {
  try {
    open();
    return std::nullopt;
  } catch (const ContainerError& error) {
    EXPECT_THAT(error.what(), HasSubstr(part_of_message));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.fault;
  }
}

std::optional<Fault> file_fault(const fs::path& file) {
  return container_fault([&] { return open_container(file); }, file.string());
}

std::optional<Fault> folder_fault(const fs::path& folder, std::string_view part_of_message) {
  return container_fault([&] { return open_container_folder(folder); }, part_of_message);
}

uint64_t sum_of_bytes(const Tensor& tensor) {
  return std::accumulate(tensor.data.begin(), tensor.data.end(), uint64_t{0},
                         [](uint64_t sum, std::byte byte) { return sum + std::to_integer<uint64_t>(byte); });
}

TEST(Container, TheBundledCheckpointHoldsWhatItsIndexNames) {
  const Container container = open_container_folder(test::source_path("models/tiny-gpt-oss"));
  ASSERT_EQ(container.tensors.size(), 117u);  // 19 tensors in each of 6 layers, and 3 others
  EXPECT_EQ(container.files.size(), 2u);
  // The sums and shapes were computed with Python's struct and json modules from the same file.
  const Tensor* codes = container.find("model.layers.3.mlp.experts.down_proj_blocks");
  ASSERT_NE(codes, nullptr);
  EXPECT_EQ(codes->dtype, DType::kU8);
  EXPECT_THAT(codes->shape, testing::ElementsAre(16, 256, 4, 16));
  EXPECT_EQ(sum_of_bytes(*codes), 31832163u);
  const Tensor* norm = container.find("model.norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->dtype, DType::kBf16);
  EXPECT_THAT(norm->shape, testing::ElementsAre(256));
  EXPECT_EQ(sum_of_bytes(*norm), 22451u);
  EXPECT_EQ(container.find("model.layers.6.mlp.router.weight"), nullptr);
}

TEST_F(ContainerTest, ATensorSaysWhichFileItLiesIn) {
  write_tensor("x.safetensors", "one", "1");
  write_tensor("y.safetensors", "two", "22");
  write_index(R"({"two":"y.safetensors","one":"x.safetensors"})");
  const Container container = open_container_folder(folder_);
  ASSERT_EQ(container.tensors.size(), 2u);
  const Tensor* two = container.find("two");
  EXPECT_EQ(as_text(two->data), "22");
  EXPECT_EQ(container.files[two->file_index], folder_ / "y.safetensors");
}

TEST_F(ContainerTest, TheDataOutlivesTheMappingsMaker) {
  write_tensor("model.safetensors", "a", "data");
  Tensor tensor;
  std::shared_ptr<const void> storage;
  {
    Container container = open_container_folder(folder_);
    tensor = *container.find("a");
    storage = container.storage;
  }
  EXPECT_EQ(as_text(tensor.data), "data");
}

TEST_F(ContainerTest, AMovedContainerStillFindsItsTensors) {
  Container container = open_container(write_tensor("a.safetensors", "a", "x"));
  const Container moved = std::move(container);
  EXPECT_EQ(moved.find("a"), moved.tensors.data());
}

TEST_F(ContainerTest, AMisalignedTensorIsCopiedToWhereItIsAligned) {
  const std::string entries =
      R"("byte":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"wide":{"dtype":"U64","shape":[1],"data_offsets":[1,9]})";
  for (size_t padding = 0; padding < 8; ++padding) {
    const fs::path file = write(
        "odd.safetensors",
        safetensors_bytes("{" + entries + "}" + std::string(padding, ' '), std::string_view("?ABCDEFGH")));
    const Container container = open_container(file);
    const Tensor* wide = container.find("wide");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(wide->data.data()) % 8, 0u);
    EXPECT_EQ(as_text(wide->data), "ABCDEFGH");
    EXPECT_EQ(as_text(container.find("byte")->data), "?");
  }
}

TEST_F(ContainerTest, WithoutAnIndexModelSafetensorsIsTheWholeCheckpoint) {
  write_tensor("model.safetensors", "a", "x");
  write_tensor("other.safetensors", "b", "y");
  const Container container = open_container_folder(folder_);
  EXPECT_NE(container.find("a"), nullptr);
  EXPECT_EQ(container.find("b"), nullptr);
}

TEST_F(ContainerTest, AnOriginalFolderIsAllFilesThatLieDirectlyInIt) {
  write_tensor("model--00002-of-00002.safetensors", "b", "y");
  write_tensor("model--00001-of-00002.safetensors", "a", "x");
  write("dtypes.json", "{}");
  fs::create_directories(folder_ / "deeper");
  write_tensor("deeper/model.safetensors", "a", "not this one");
  const Container container = open_container_folder(folder_);
  ASSERT_EQ(container.tensors.size(), 2u);
  EXPECT_EQ(as_text(container.find("a")->data), "x");
  EXPECT_EQ(container.files[0], folder_ / "model--00001-of-00002.safetensors");
}

TEST_F(ContainerTest, OneNameInTwoFilesIsRefused) {
  write_tensor("model-1.safetensors", "a", "x");
  write_tensor("model-2.safetensors", "a", "y");
  EXPECT_EQ(folder_fault(folder_, "model-1.safetensors"), Fault::kDuplicateName);
}

TEST_F(ContainerTest, TheIndexDecidesWhichOfTwoTensorsCounts) {
  write_tensor("model-1.safetensors", "a", "old");
  write_tensor("model-2.safetensors", "a", "new");
  write_tensor("model-3.safetensors", "b", "b");
  write_index(R"({"b":"model-3.safetensors","a":"model-2.safetensors"})");
  const Container container = open_container_folder(folder_);
  EXPECT_EQ(container.tensors.size(), 2u);
  EXPECT_EQ(as_text(container.find("a")->data), "new");
}

TEST_F(ContainerTest, ModelSafetensorsNextToAnIndexOfOtherFilesIsRefused) {
  write_tensor("model-1.safetensors", "a", "old");
  write_tensor("model.safetensors", "a", "new");
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  EXPECT_THAT(error_of([&] { open_container_folder(folder_); }),
              HasSubstr("has model.safetensors and also the files of model.safetensors.index.json"));
  write_index(R"({"a":"model.safetensors"})");
  EXPECT_EQ(as_text(open_container_folder(folder_).find("a")->data), "new");
}

TEST_F(ContainerTest, AnIndexWhoseFilesAreAllGoneGivesWayToModelSafetensors) {
  write_tensor("model.safetensors", "a", "new");
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  EXPECT_EQ(as_text(open_container_folder(folder_).find("a")->data), "new");
}

TEST_F(ContainerTest, AMissingShardIsNamed) {
  write_tensor("model-1.safetensors", "a", "x");
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  EXPECT_EQ(folder_fault(folder_, "\"model-2.safetensors\""), Fault::kMissingFile);
}

TEST_F(ContainerTest, ATensorThatItsShardLacksIsNamed) {
  write_tensor("model-1.safetensors", "a", "x");
  write_tensor("model-2.safetensors", "b", "x");
  write_index(R"({"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors"})");
  EXPECT_EQ(folder_fault(folder_, ".safetensors"), Fault::kMissingTensor);
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors","nowhere":"model-2.safetensors"})");
  EXPECT_EQ(folder_fault(folder_, "\"nowhere\""), Fault::kMissingTensor);
}

TEST_F(ContainerTest, AnIndexThatLeavesTheFolderIsRefused) {
  write_index(R"({"a":"../model.safetensors"})");
  EXPECT_EQ(folder_fault(folder_, "../model.safetensors"), Fault::kBadFileName);
}

TEST_F(ContainerTest, ATruncatedShardIsNamed) {
  const fs::path shard = write_tensor("model-1.safetensors", "a", "0123456789");
  fs::resize_file(shard, fs::file_size(shard) - 1);
  write_index(R"({"a":"model-1.safetensors"})");
  EXPECT_EQ(folder_fault(folder_, "model-1.safetensors"), Fault::kTruncated);
}

TEST_F(ContainerTest, AnEmptyFolderIsRefused) {
  EXPECT_EQ(folder_fault(folder_, folder_.string()), Fault::kEmptyFolder);
}

TEST_F(ContainerTest, AFolderThatIsNoneIsRefused) {
  EXPECT_THROW(open_container_folder(folder_ / "nowhere"), InputError);
  EXPECT_THROW(open_container_folder(write("file", "x")), InputError);
}

TEST_F(ContainerTest, AGgufFileIsNoPartOfACheckpoint) {
  const fs::path file = write("model.gguf", std::string_view("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(file_fault(file), Fault::kGguf);
  EXPECT_EQ(folder_fault(folder_, "give its path"), Fault::kGguf);
}

TEST_F(ContainerTest, WhatIsNotATensorFileIsRefused) {
  EXPECT_EQ(
      file_fault(write("pointer.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")),
      Fault::kNotTensors);
  EXPECT_EQ(file_fault(write("config.json", R"({"hidden_size": 2880})")), Fault::kNotTensors);
  EXPECT_EQ(file_fault(write("model.bin", std::string_view("PK\3\4\0\0\0\0\0\0", 10))), Fault::kNotTensors);
  EXPECT_EQ(file_fault(write("empty.safetensors", "")), Fault::kNotTensors);
}

TEST_F(ContainerTest, AMissingFileIsRefused) {
  EXPECT_THROW(open_container(folder_ / "nowhere"), InputError);
}

}  // namespace
}  // namespace nibble
