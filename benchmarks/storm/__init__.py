"""Storm's own Trident beside us: a small Java program, built with Maven, in a LocalCluster."""
