from solar_tf.datasets.command import main

if __name__ == "__main__":
    main()
