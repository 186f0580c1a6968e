#include "setup/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ModelSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    setenv("HF_HOME", (folder_ / "hf").c_str(), 1);
    unsetenv("HF_HUB_CACHE");
    places_.model_folders = {folder_ / "models"};
  }
  void TearDown() override {
    unsetenv("HF_HOME");
    fs::remove_all(folder_);
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  std::string refusal(const std::string& argument) {
    return error_of([&] { find_model(argument, places_); });
  }

  fs::path folder_ = fs::path(testing::TempDir()) / "nibble_model_source";
  Places places_;
};

TEST_F(ModelSourceTest, AFolderOrFileIsTakenAsItIs) {
  write("checkpoint/model.safetensors", "");
  const std::string file = (folder_ / "checkpoint/model.safetensors").string();
  EXPECT_EQ(find_model(file, places_).path, file);
  EXPECT_EQ(find_model(file, places_).folder(), folder_ / "checkpoint");
  EXPECT_EQ(find_model((folder_ / "checkpoint").string(), places_).folder(), folder_ / "checkpoint");
}

TEST_F(ModelSourceTest, ABundledNameIsFoundInTheFolderOfModels) {
  write("models/tiny-gpt-oss/config.json", "{}");
  EXPECT_EQ(find_model("tiny", places_).path, folder_ / "models/tiny-gpt-oss");
}

TEST_F(ModelSourceTest, ACacheEntryIsTheSnapshotThatMainNames) {
  const fs::path entry = "hf/hub/models--openai--gpt-oss-20b";
  write(entry / "refs/main", "abc123\n");
  write(entry / "snapshots/abc123/config.json", "{}");
  write(entry / "snapshots/other/config.json", "{}");
  EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / entry / "snapshots/abc123");
}

TEST_F(ModelSourceTest, ACacheEntryWithoutItsSnapshotIsNone) {
  write("hf/hub/models--openai--gpt-oss-20b/refs/main", "abc123");
  EXPECT_THAT(refusal("openai/gpt-oss-20b"), HasSubstr("no model"));
}

TEST_F(ModelSourceTest, ACacheEntryWithoutRefsIsItsNewestSnapshot) {
  const fs::path snapshots = "hf/hub/models--openai--gpt-oss-20b/snapshots";
  write(snapshots / "only/config.json", "{}");
  EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / snapshots / "only");

  // The newest is neither the first nor the last by name.
  write(snapshots / "before/config.json", "{}");
  write(snapshots / "zero/config.json", "{}");
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder_ / snapshots / "only", now);
  fs::last_write_time(folder_ / snapshots / "before", now - std::chrono::hours(1));
  fs::last_write_time(folder_ / snapshots / "zero", now - std::chrono::hours(2));
  EXPECT_EQ(find_model("openai/gpt-oss-20b", places_).path, folder_ / snapshots / "only");
}

TEST_F(ModelSourceTest, SyntheticModelsHaveAConfigurationAndNoFiles) {
  const ModelSource source = find_model("synthetic:gpt-oss-120b", places_);
  ASSERT_TRUE(source.synthetic);
  EXPECT_EQ(source.synthetic->num_experts, 128);
  EXPECT_TRUE(source.path.empty());

  const std::string config = test::source_path("models/tiny-gpt-oss/config.json");
  EXPECT_EQ(find_model("synthetic:" + config, places_).synthetic->hidden, 256);
}

TEST_F(ModelSourceTest, ARefusalSaysWhereItLooked) {
  EXPECT_THAT(refusal("tiny"), HasSubstr((folder_ / "models/tiny-gpt-oss").string()));
  EXPECT_THAT(refusal("openai/gpt-oss-20b"),
              HasSubstr((folder_ / "hf/hub/models--openai--gpt-oss-20b").string()));
  EXPECT_THAT(refusal("synthetic:gpt-oss-7b"), AllOf(HasSubstr("gpt-oss-20b"), HasSubstr("config.json")));
  for (const char* argument :
       {"", "no-such-model", "a-folder/that-is/not-here", "/no-such-file", "no-such-file/"}) {
    EXPECT_THAT(refusal(argument), HasSubstr("Accepted is a folder")) << argument;
  }
}

TEST_F(ModelSourceTest, ARefusalSaysWhichNamesThereAreAndHowToGetTheFiles) {
  EXPECT_THAT(
      refusal("gpt-oss-20b"),
      AllOf(HasSubstr("tiny"), HasSubstr("openai/gpt-oss-120b"), HasSubstr("synthetic:gpt-oss-20b"),
            HasSubstr("hf download openai/gpt-oss-20b "), HasSubstr("13.8 GB"), HasSubstr("Apache-2.0")));
  EXPECT_THAT(refusal("openai/gpt-oss-120b"), HasSubstr("hf download openai/gpt-oss-120b "));
}

}  // namespace
}  // namespace nibble
