"""A real etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback."""

from railhead.local.control_plane.servers import ControlPlane

__all__ = ["ControlPlane"]
