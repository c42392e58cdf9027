// hwloc's archive reads the properties of block devices through libudev, which exists only as a shared library. Here
// udev_new() reports that there is no udev, and hwloc works without it. read_cpu_topology() only needs CPUs and memory.
extern "C" {

struct udev;
struct udev_device;

udev* udev_new();
udev* udev_unref(udev* context);
udev_device* udev_device_new_from_subsystem_sysname(udev* context, const char* subsystem, const char* name);
const char* udev_device_get_property_value(udev_device* device, const char* key);
udev_device* udev_device_unref(udev_device* device);

udev* udev_new() {
  return nullptr;
}

udev* udev_unref(udev* /*context*/) {
  return nullptr;
}

udev_device* udev_device_new_from_subsystem_sysname(udev* /*context*/, const char* /*subsystem*/,
                                                    const char* /*name*/) {
  return nullptr;
}

const char* udev_device_get_property_value(udev_device* /*device*/, const char* /*key*/) {
  return nullptr;
}

udev_device* udev_device_unref(udev_device* /*device*/) {
  return nullptr;
}

}  // extern "C"
