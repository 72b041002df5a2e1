#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <cstring>

#include "device.h"

namespace asmevo::torch_device {
namespace {

constexpr uint64_t kStep = 4;  // a CUDA generator's offset moves in steps of four
constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);

/// Mixes seed and offset (splitmix64's finalizer), so that neighbours give unrelated numbers.
uint64_t mix(uint64_t seed, uint64_t offset) {
    uint64_t z = seed + 0x9e3779b97f4a7c15 * (offset / kStep + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/// State and interface of a CUDA generator: 16 bytes of seed and offset.
class DeviceGenerator final : public c10::GeneratorImpl {
  public:
    DeviceGenerator() : GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}

    void set_current_seed(uint64_t seed) override {
        seed_ = seed;
        offset_ = 0;
    }
    void set_offset(uint64_t offset) override { offset_ = offset; }
    uint64_t get_offset() const override { return offset_; }
    uint64_t current_seed() const override { return seed_; }
    uint64_t seed() override {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return seed_;
    }
    void set_state(const c10::TensorImpl& state) override {
        TORCH_CHECK_TYPE(state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.is_cpu() &&
                             state.is_contiguous(),
                         "RNG state must be a torch.ByteTensor");
        TORCH_CHECK(state.numel() == kStateBytes, "RNG state is wrong size");
        const auto* bytes = static_cast<const uint8_t*>(state.data());
        std::memcpy(&seed_, bytes, sizeof seed_);
        std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        auto state = at::detail::empty_cpu({kStateBytes}, at::kByte);
        auto* bytes = static_cast<uint8_t*>(state.data_ptr());
        std::memcpy(bytes, &seed_, sizeof seed_);
        std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
        return state.getIntrusivePtr();
    }
    void graphsafe_set_state(const c10::intrusive_ptr<GeneratorImpl>& state) override {
        const auto* other = dynamic_cast<const DeviceGenerator*>(state.get());
        TORCH_CHECK(other, "the state must be a CUDA generator's");
        seed_ = other->seed_;
        offset_ = other->offset_;
    }
    c10::intrusive_ptr<GeneratorImpl> graphsafe_get_state() const override {
        return c10::intrusive_ptr<GeneratorImpl>::reclaim(clone_impl());
    }

    uint64_t next_seed() {
        std::lock_guard lock(mutex_);
        const uint64_t seed = mix(seed_, offset_);
        offset_ += kStep;
        return seed;
    }

  private:
    DeviceGenerator* clone_impl() const override {
        auto* copy = new DeviceGenerator;
        copy->seed_ = seed_;
        copy->offset_ = offset_;
        return copy;
    }

    uint64_t seed_ = c10::default_rng_seed_val;
    uint64_t offset_ = 0;
};

}  // namespace

at::Generator make_generator() {
    return at::make_generator<DeviceGenerator>();
}

const at::Generator& default_generator() {
    static const auto& generator = *new at::Generator(make_generator());
    return generator;
}

at::Generator next_host_generator(const at::Generator& generator) {
    auto* device = dynamic_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl());
    TORCH_CHECK(device, "Expected a 'cuda' device type for generator but found '",
                generator.device().type(), "'");
    return at::make_generator<at::CPUGeneratorImpl>(device->next_seed());
}

}  // namespace asmevo::torch_device
