#include "plan/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ashlar::plan {
namespace {

// A machine with 8 GiB, in a folder of its own.
class MachineMemoryTest : public ::testing::Test {
 protected:
  MachineMemoryTest()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("ashlar-memory-" + std::to_string(getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    Write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          123 kB\n");
  }
  ~MachineMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  Result<MachineMemory> Read() { return ReadMachineMemory(root_.string()); }

  std::filesystem::path root_;
};

TEST_F(MachineMemoryTest, WithoutControlGroupsIsTheMachines) {
  const auto memory = Read();
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  EXPECT_EQ(memory->bytes, 8ull << 30);
  EXPECT_EQ(memory->source, "this machine");
}

TEST_F(MachineMemoryTest, TheLeastLimitOnTheWayUpCounts) {
  Write("proc/self/cgroup", "0::/outer/inner\n");
  Write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(Read()->bytes, 8ull << 30);
  Write("sys/fs/cgroup/outer/memory.max", "2147483648\n");
  EXPECT_EQ(Read()->bytes, 2ull << 30);
  EXPECT_EQ(Read()->source, "the control group's limit in /sys/fs/cgroup/outer/memory.max");
  Write("sys/fs/cgroup/outer/inner/memory.max", "1073741824\n");
  EXPECT_EQ(Read()->bytes, 1ull << 30);
}

TEST_F(MachineMemoryTest, InAContainerTheGroupIsTheRoot) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(Read()->bytes, 512ull << 20);
}

TEST_F(MachineMemoryTest, VersionOneIsRead) {
  Write("proc/self/cgroup", "7:cpu,memory:/docker/abc\n3:pids:/docker/abc\n");
  Write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read()->source, "this machine");
  Write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(Read()->bytes, 3ull << 30);
  // The folder as the container sees it.
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(Read()->bytes, 1ull << 30);
  // A group of another controller is none of ours.
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("proc/self/cgroup", "3:memoryish:/docker/abc\n");
  EXPECT_EQ(Read()->bytes, 8ull << 30);
}

TEST_F(MachineMemoryTest, ALimitAboveTheMachineIsNone) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "99999999999999\n");
  EXPECT_EQ(Read()->source, "this machine");
}

TEST_F(MachineMemoryTest, WhatIsNoNumberIsRefused) {
  Write("proc/self/cgroup", "0::/\nnonsense\n::\n");
  for (const char* const text : {"", "-1", "lots", "99999999999999999999999"}) {
    Write("sys/fs/cgroup/memory.max", text);
    const auto memory = Read();
    ASSERT_FALSE(memory.ok()) << text;
    EXPECT_NE(memory.error().message.find("memory.max"), std::string::npos);
  }
  Write("proc/meminfo", "MemFree: 7 kB\n");
  EXPECT_FALSE(Read().ok());
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_FALSE(Read().ok());
}

TEST(MachineMemory, ThisMachineHasSome) {
  const auto memory = ReadMachineMemory();
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  EXPECT_GT(memory->bytes, 64u << 20);
}

}  // namespace
}  // namespace ashlar::plan
